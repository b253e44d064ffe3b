//go:build e2e

package labtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// contactGoal is within what every survivor's status is to name a peer that was
// struck, and to say that it is back.
const contactGoal = 2 * time.Second

// TestContact strikes one peer after the other, leaders and followers, and measures
// on each survivor how long its status takes to name it, and after its return how
// long until it counts as live again. TRIVET_E2E_LONG makes 30 trials of each.
func TestContact(t *testing.T) {
	trials := longer(3, 30)
	l := NewHosts(t)
	l.Trio("h1", "h2", "h3")
	for _, how := range []struct {
		name         string
		strike, undo func(p *Peer)
	}{
		{"killed (SIGKILL)", (*Peer).Kill9, (*Peer).backAgain},
		{"stopped (SIGTERM)", (*Peer).Stop, (*Peer).backAgain},
		{"frozen (SIGSTOP)", (*Peer).Pause, (*Peer).Cont},
		{"cut off (links down)", func(p *Peer) { p.Host.Cut(Peers, Site) }, func(p *Peer) { p.Host.Heal() }},
	} {
		t.Run(how.name, func(t *testing.T) {
			var named, returned []time.Duration
			for n := range trials {
				l.awaitContact(t, growLimit, "every peer counts as live", l.Peers, l.Peers, true)
				victim := l.WaitLeader()
				if n%3 > 0 {
					victim = l.Followers()[n%2]
				}
				survivors := slices.DeleteFunc(slices.Clone(l.Peers), func(p *Peer) bool { return p == victim })
				began := time.Now()
				how.strike(victim)
				if strings.HasPrefix(how.name, "stopped") {
					began = time.Now() // an orderly stop takes its time; it is over now
				}
				named = append(named, l.contactWithin(t, began, victim.Name+" is named as silent", survivors, victim, false))
				l.shown(t, survivors[n%2], victim)
				testwait.Elapse(t, time.Duration(n%10)*time.Second, "the peer is silent for longer and longer")
				how.undo(victim)
				returned = append(returned,
					l.contactWithin(t, time.Now(), victim.Name+" is said to be back", survivors, victim, true))
			}
			slices.Sort(named)
			slices.Sort(returned)
			t.Logf("%s, %d trials: every survivor names it after %s; says that it is back after %s", how.name, trials,
				medianMost(named), medianMost(returned))
			kind, _, _ := strings.Cut(how.name, " (")
			kind = strings.ReplaceAll(kind, " ", "_")
			testenv.Took(t, "labtest.contact_"+kind+"_named", slices.Max(named), contactGoal)
			testenv.Took(t, "labtest.contact_"+kind+"_back", slices.Max(returned), contactGoal)
		})
	}
}

func medianMost(sorted []time.Duration) string {
	return fmt.Sprintf("%v at the median, %v at most", sorted[len(sorted)/2].Round(time.Millisecond),
		sorted[len(sorted)-1].Round(time.Millisecond))
}

// backAgain starts a peer whose process has ended, and returns when its own control
// socket answers: that is its return.
func (p *Peer) backAgain() {
	p.Spawn()
	p.lab.Eventually(electLimit, p.Name+" answers on its socket", func() error {
		_, err := p.Status()
		return err
	})
}

// contactWithin waits until every survivor counts the victim as live, or not, and
// returns how long after began that was.
func (l *Lab) contactWithin(t *testing.T, began time.Time, what string, survivors []*Peer, victim *Peer,
	live bool) time.Duration {
	t.Helper()
	l.awaitContact(t, growLimit, what, survivors, []*Peer{victim}, live)
	return time.Since(began)
}

// awaitContact waits until the status of each of from counts each of to as live, or
// names it as silent.
func (l *Lab) awaitContact(t *testing.T, limit time.Duration, what string, from, to []*Peer, live bool) {
	t.Helper()
	eventually(t, limit, what, func() error {
		for _, p := range from {
			s, err := p.Status()
			if err != nil {
				return err
			}
			for _, other := range to {
				at := slices.IndexFunc(s.Peers, func(row api.Peer) bool { return row.Name == other.Name })
				if at < 0 || s.Peers[at].Live != live {
					return fmt.Errorf("%s, as %s hears: %s live: %v", p.Name, s.HeardBy, other.Name, !live)
				}
			}
		}
		return nil
	})
}

// shown runs the command itself: it names the victim, in its table and its
// warnings, and its exit code says that all is not well.
func (l *Lab) shown(t *testing.T, survivor, victim *Peer) {
	t.Helper()
	r := survivor.Trivet("status", survivor.On())
	if r.Code != 2 && r.Code != 5 ||
		!strings.Contains(r.Out, victim.Name+" silent for ") && !strings.Contains(r.Out, "no leader") {
		t.Errorf("status-silent: on %s: exit %d\n%s%s", survivor.Name, r.Code, r.Out, r.Err)
	}
}

// A follower whose cables carry nothing for some seconds, and refuse nothing, has its
// commands taken by the leader after they carry again; how soon is a figure, which
// shows whether a connection waits for TCP's next repetition.
func TestCutFollowerIsBackSoon(t *testing.T) {
	const soon = 3 * time.Second // a dial of the last moment before, and one more
	l, longest := NewHosts(t), make(worst)
	l.Trio("h1", "h2", "h3")
	for n, cut := range []time.Duration{6 * time.Second, 7 * time.Second, 8 * time.Second, 9 * time.Second} {
		l.WaitLeader()
		p := l.Followers()[n%2]
		key := fmt.Sprintf("cut.%d", n)
		if err := p.Put(key, "before"); err != nil {
			t.Fatalf("before the cut: %v", err)
		}
		p.Host.Cut(Peers, Site)
		asked := make(chan error, 1)
		go func() { asked <- p.Put(key, "while") }() // it is under way when the cables carry again, or was refused
		testwait.Elapse(t, cut, "the follower is cut off")
		p.Host.Heal()
		began := time.Now()
		l.Eventually(electLimit, "the follower's command is taken", func() error { return p.Put(key, "after") })
		longest.took(t, "labtest.cut_follower_back", time.Since(began), soon)
		testwait.Receive(t, asked, "the command that was given while the follower was cut off ends")
		l.WaitVoters(3)
	}
}

// TestHostsThemselves tries the lab's own network: a leader whose cable to the
// other peers is taken off steps down, is still reached from the site, and
// follows when the cable is back.
func TestHostsThemselves(t *testing.T) {
	t.Parallel()
	l := NewHosts(t)
	l.Trio("a", "b", "c")
	leader := l.WaitLeader()
	leader.Host.Cut(Peers)
	await(l.t, growLimit, "it knows that it leads no more", leader.Status, func(s api.Status) bool {
		return s.Leader == ""
	})
	code, took := leader.web(t, "/livez")
	if code != 200 {
		t.Errorf("/livez from the site: %d", code)
	}
	testenv.Took(t, "labtest.cut_leader_livez", took, time.Second)
	l.servedByOthers(leader, electLimit)
	leader.Host.Heal()
	l.WaitVoters(3)
	l.WaitLeader()
	l.WaitSame()
}
