package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

var errMute = errors.New("no answer")

// room is a log of three members, of which this peer is h1, and the answers of the
// other two to its probes.
type room struct {
	mu      sync.Mutex
	view    fsm.View
	leader  string
	silent  map[string]time.Duration // by server ID, where this peer leads
	answers map[string]Report        // by server ID; none: it does not answer
	probes  int
}

func newRoom(t *testing.T) *room {
	t.Helper()
	f := newFixture(t)
	for i, c := range []fsm.Command{
		membership.PutMember{Member: membership.Member{ID: "h2", Name: "h2", Address: "h2:7350", Version: fsm.Version}},
		membership.PutMember{Member: membership.Member{ID: "h3", Name: "h3", Address: "h3:7350", Version: fsm.Version}},
		fsm.Lead{Peer: "h1", Boot: "boot"},
	} {
		data, err := fsm.Encode(fsm.Header{}, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.state.Apply(fsm.Entry{Index: uint64(100 + i), Term: 1, Data: data}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return &room{view: f.state.View(), answers: map[string]Report{"h2": {}, "h3": {}}}
}

func (r *room) View() fsm.View { return r.view }

func (r *room) Leader() (raftstore.Server, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return raftstore.Server{ID: r.leader}, r.leader != ""
}

func (r *room) Progress() (all []raftstore.Progress, last uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader != "h1" {
		return nil, 0, logerr.ErrNotLeader
	}
	all = []raftstore.Progress{{Server: raftstore.Server{ID: "h1", Voter: true}, Matched: 50}}
	for _, id := range []string{"h2", "h3"} {
		all = append(all, raftstore.Progress{Server: raftstore.Server{ID: id, Voter: true}, Matched: 40,
			Silent: r.silent[id]})
	}
	return all, 50, nil
}

func (r *room) Probe(_ context.Context, m membership.Member) (Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	if a, ok := r.answers[m.ID]; ok {
		return a, nil
	}
	return Report{}, errMute
}

func (r *room) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// contacts runs a table in a bubble and gives it one round of probes.
func (r *room) contacts(t *testing.T, returned func(string, time.Time)) *Contacts {
	t.Helper()
	c := NewContacts(ContactOptions{Self: "h1", Log: r, Prober: r, Returned: returned})
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { stop(); work.Wait() })
	time.Sleep(ContactEvery) // in a bubble
	return c
}

// TestLeaderBelievesAcknowledgements: whatever a follower answers to probes, what
// counts on the leader is the requests of raft that it acknowledges.
func TestLeaderBelievesAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.leader, r.silent = "h1", map[string]time.Duration{"h2": 100 * time.Millisecond, "h3": 1200 * time.Millisecond}
		c := r.contacts(t, nil)
		time.Sleep(5 * time.Second) // in a bubble
		h := c.Hearing()
		if h.By != "h1" || h.Age != 0 || !h.Of("h1").Live || !h.Of("h2").Live || h.Of("h3").Live {
			t.Errorf("heard-by-leader: %+v", h)
		}
		if two := h.Of("h2"); two.Silent != 100*time.Millisecond || !two.Matched || two.Behind != 10 {
			t.Errorf("heard-by-leader: h2 %+v, want silent for 100ms and 10 entries behind", two)
		}
		report := c.Report(json.RawMessage(`"here"`))
		if !report.Leading || len(report.Contacts) != 3 || report.Contacts[2].SilentMS != 1200 ||
			string(report.Host) != `"here"` {
			t.Errorf("reported: %+v", report)
		}
	})
}

// TestNewLeaderKnowsWhoWasHeard: before the first acknowledgements a new leader goes
// by its probes; then probes count no more.
func TestNewLeaderKnowsWhoWasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.leader = "h3"
		c := r.contacts(t, nil)
		time.Sleep(2 * time.Second) // in a bubble
		r.set(func() {
			delete(r.answers, "h3")
			r.leader, r.silent = "h1", map[string]time.Duration{"h2": math.MaxInt64, "h3": math.MaxInt64}
		})
		if h := c.Hearing(); !h.Of("h2").Live || h.Of("h2").Never {
			t.Errorf("new-leader: h2, which answered a moment ago, is %+v", h.Of("h2"))
		}
		time.Sleep(SilentAfter + ContactEvery) // in a bubble
		if h := c.Hearing(); h.Of("h2").Live || h.Of("h2").Never {
			t.Errorf("new-leader: h2 has acknowledged nothing and is %+v", h.Of("h2"))
		}
	})
}

// TestFollowerRepeatsItsLeader: what this follower can reach itself does not matter
// while its leader reports.
func TestFollowerRepeatsItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.leader = "h2"
		r.answers["h2"] = Report{Leading: true, Contacts: []Contact{
			{ID: "h1", Matched: true}, {ID: "h2", Matched: true}, {ID: "h3", SilentMS: 3000, Matched: true, Behind: 7}}}
		c := r.contacts(t, nil)
		if h := c.Hearing(); h.By != "h2" || !h.Of("h1").Live || !h.Of("h2").Live || h.Of("h3").Live ||
			h.Of("h3").Silent < 3*time.Second || h.Of("h3").Behind != 7 {
			t.Errorf("as-leader-hears: %+v", h)
		}
		r.set(func() { // h3 is back, and this host does not reach it
			r.answers["h2"] = Report{Leading: true, Contacts: []Contact{{ID: "h1"}, {ID: "h2"}, {ID: "h3", SilentMS: 40}}}
			delete(r.answers, "h3")
		})
		time.Sleep(SilentAfter + 2*ContactEvery) // in a bubble
		if three := c.Hearing().Of("h3"); !three.Live || !three.Away {
			t.Errorf("as-leader-hears: h3 %+v, want live and not reached from here", three)
		}
		r.set(func() { r.leader = "" })
		if h := c.Hearing(); h.By != "h1" || !h.Of("h2").Live || h.Of("h3").Live {
			t.Errorf("without-leader: %+v, want what this peer hears itself", h)
		}
		r.set(func() { r.leader = "h3" }) // its report has not come
		if h := c.Hearing(); h.By != "h1" {
			t.Errorf("the report of %s is taken for that of the leader h3", "h2")
		}
	})
}

// TestNeverHeard: a peer that this process has not heard at all is silent since it began, and
// not for the two thousand years of a moment that is not set.
func TestNeverHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		delete(r.answers, "h3")
		began := time.Now()
		c := r.contacts(t, nil)
		time.Sleep(2 * time.Second) // in a bubble
		if three := c.Hearing().Of("h3"); three.Live || !three.Never || three.Silent != time.Since(began) {
			t.Errorf("never-heard: h3 %+v, want never, for %v", three, time.Since(began))
		}
	})
}

// TestStoppedProcessSaysHowOld: a process that did not run has heard nothing, and
// accuses nobody of that.
func TestStoppedProcessSaysHowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.leader = "h2"
		c := NewContacts(ContactOptions{Self: "h1", Log: r, Prober: r})
		c.probe(t.Context(), membership.Member{ID: "h2"})
		time.Sleep(StaleAfter) // in a bubble
		if h := c.Hearing(); h.Age != 0 || h.Of("h2").Live {
			t.Errorf("after %v: %+v", StaleAfter, h)
		}
		time.Sleep(time.Minute) // in a bubble: nothing runs, as when the process is stopped
		h := c.Hearing()
		if h.Age < time.Minute || !h.Of("h2").Live || h.Of("h2").Silent < time.Minute {
			t.Errorf("age-is-told: %+v", h)
		}
		if three := h.Of("h3"); three.Live || !three.Never {
			t.Errorf("h3 was never heard and is %+v", three)
		}
		if _, ok := c.Answers("h2"); ok {
			t.Error("a report of a minute ago is shown as new")
		}
	})
}

// TestStoppedLeaderReportsNoSilence: a leader that was stopped for a little more than
// SilentAfter still leads. It reports no peer as silent that it could not hear then, and
// each that it does not hear afterwards.
func TestStoppedLeaderReportsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.leader = "h1"
		members := map[string]bool{"h2": true, "h3": true}
		c := NewContacts(ContactOptions{Self: "h1", Log: r, Prober: r})
		time.Sleep(ContactEvery / 2) // in a bubble
		c.tick(members)
		heard := time.Now()
		live := func(when string, want bool) {
			t.Helper()
			r.set(func() { r.silent = map[string]time.Duration{"h2": time.Since(heard), "h3": time.Since(heard)} })
			for _, id := range []string{"h2", "h3"} {
				if got := c.Hearing().Of(id); got.Live != want {
					t.Errorf("stopped-leader: %s %s is %+v, want live %v", when, id, got, want)
				}
			}
		}
		time.Sleep(SilentAfter + ContactEvery/2) // in a bubble: nothing runs
		live("as it goes on", true)
		c.tick(members)
		time.Sleep(ContactEvery / 2) // in a bubble
		c.tick(members)
		live("soon after", true)
		for range 5 {
			time.Sleep(ContactEvery / 2) // in a bubble
			c.tick(members)
		}
		live("a second after", false)
	})
}

// TestReturnIsTold: once, with the end of the last probe that failed.
func TestReturnIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		var told []time.Time
		c := r.contacts(t, func(id string, failed time.Time) {
			if id != "h3" {
				t.Errorf("%s never was away", id)
			}
			r.set(func() { told = append(told, failed) })
		})
		r.set(func() { delete(r.answers, "h3") })
		time.Sleep(5 * time.Second) // in a bubble
		back := time.Now()
		r.set(func() { r.answers["h3"] = Report{} })
		time.Sleep(5 * time.Second) // in a bubble
		synctest.Wait()
		if len(told) != 1 || told[0].After(back) || back.Sub(told[0]) > ContactEvery {
			t.Errorf("told of %v, want once, right before %v", told, back)
		}
		if !c.Hearing().Of("h3").Live {
			t.Error("h3 is back and does not count as live")
		}
	})
}

// TestProbesAreBounded: one a peer in each interval, whatever the answers are.
func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		delete(r.answers, "h3")
		r.contacts(t, nil)
		time.Sleep(10 * time.Second) // in a bubble
		r.mu.Lock()
		defer r.mu.Unlock()
		if most := 2 * int(11*time.Second/ContactEvery); r.probes > most || r.probes < most/2 {
			t.Errorf("%d probes of two peers in 10 s, want at most %d", r.probes, most)
		}
	})
}
