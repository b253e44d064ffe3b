//go:build e2e

package labtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testwait"
)

// unheardFor is how long a founder is watched that has not heard the old peers: many
// times what it waits for another host's PXE service.
const unheardFor = 20 * time.Second

// TestRestoreWhileOldPeersRun restores a cluster on one host while the two others
// run, reachable or cut off: it is refused. They are stopped, the cluster is founded
// again, and the founder is killed; the two are started again while nothing carries
// between them and the founder, and elect a leader, which opens. The founder comes
// back and opens nothing before it has heard them. At no sample two hosts answer.
func TestRestoreWhileOldPeersRun(t *testing.T) {
	t.Parallel()
	g := gateKind{}.build(t, "nftables")
	g.waits(t)
	leader := g.settled()
	founder := g.Followers()[0]
	old := slices.DeleteFunc(slices.Clone(g.Peers), func(p *Peer) bool { return p == founder })
	file := filepath.Join(g.dir, "gate.snap")
	leader.Must("snapshot", "save", file, leader.On())

	began := time.Now()
	founder.Stop()
	restore := func() Result { return founder.Trivet("snapshot", "restore", file, founder.Flags()) }
	if r := restore(); r.Code == 0 || !strings.Contains(r.Err, "runs") {
		t.Fatalf("restore while both others run: exit %d\n%s", r.Code, r.Err)
	}
	founder.Host.Cut(Peers)
	if r := restore(); r.Code == 0 || !strings.Contains(r.Err, "2 of 2 other peers do not answer, and may run") {
		t.Fatalf("restore while both others are cut off: exit %d\n%s", r.Code, r.Err)
	}
	founder.Host.Heal()
	g.settled()

	for _, p := range old {
		p.Stop()
	}
	if r := restore(); r.Code != 0 {
		t.Fatalf("restore while both others are stopped: exit %d\n%s", r.Code, r.Err)
	}
	founder.Start()
	if now := g.settled(); now != founder {
		t.Fatalf("%s leads, not %s", now.Name, founder.Name)
	}
	founder.Kill9()
	g.silent(growLimit, g.allowed, g.address)
	founder.Host.Cut(Peers)
	for _, p := range old {
		p.Start()
	}
	g.settled() // on a leader of the old incarnation
	restarted := time.Now()
	founder.Start()
	founder.aside = true
	await(g.t, electLimit, "the founder leads", founder.Status, func(s api.Status) bool {
		return s.Leader == founder.Name
	})
	testwait.Elapse(t, unheardFor, "the founder does not hear the old peers")
	if why := g.shut(founder); !strings.Contains(why, "not heard by this leader") {
		t.Errorf("it does not name the former members: %s", why)
	}

	healed := time.Now()
	founder.Host.Heal()
	founder.aside = false
	for _, p := range old {
		if code := p.WaitExit(electLimit); code != 4 {
			t.Errorf("%s ended with %d, want 4", p.Name, code)
		}
	}
	if now := g.settled(); now != founder {
		t.Fatalf("%s leads, not %s", now.Name, founder.Name)
	}
	g.founderAlone(founder, old, began, restarted, healed)
}

// founderAlone reads who answered: never two hosts, the founder not while it had not
// heard the old peers, from its restart until the cables carried again, and not
// before the last of the old hosts had ended.
func (g *gateLab) founderAlone(founder *Peer, old []*Peer, began, restarted, healed time.Time) {
	g.t.Helper()
	byFounder := func(one asked) bool { return slices.Contains(one.by, founder.Host.number) }
	for _, a := range []*asker{g.allowed, g.address} {
		all, then := a.since(began), a.since(healed)
		both := count(all, func(one asked) bool { return len(one.by) > 1 })
		var lastOld time.Time // an old leader that ends hands leadership to the other old peer
		for _, p := range old {
			if at := lastBy(then, p.Host.number); at.After(lastOld) {
				lastOld = at
			}
		}
		early := count(then, func(one asked) bool { return byFounder(one) && !one.sent.After(lastOld) })
		g.t.Logf(
			"%s: asked %d times, answered %d times, by two hosts %d times; the old hosts answered for another %v after they could be told, the founder %d times before that",
			a.name, len(all), answered(all), both, lastOld.Sub(healed).Round(time.Millisecond), early)
		if both > 0 || early > 0 {
			g.t.Errorf("one-pxe-service: %s: two hosts answered %d times, the founder %d times before the old ones had ended",
				a.name, both, early)
		}
		before, unheard := count(a.between(began, restarted), byFounder), count(a.between(restarted, healed), byFounder)
		if before == 0 || unheard > 0 {
			g.t.Errorf(
				"one-pxe-service: %s: the founder answered %d times before it was killed, and %d times while it had not heard the old peers",
				a.name, before, unheard)
		}
	}
}
