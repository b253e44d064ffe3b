package fsm

import (
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func TestOneEntryClaimsSeveralRequests(t *testing.T) {
	r := newRig(t)
	a, b := r.session("a"), r.session("b")
	first, second, third := r.start(nodeA), r.start(nodeB), r.start(nodeN(3))
	behind := r.queued(r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})).Request
	var ready []fencing.Token
	for q := range r.view().Ready() {
		ready = append(ready, q.Sequence)
	}
	if !slices.Equal(ready, []fencing.Token{first, second, third}) || r.view().Claimable() != 3 {
		t.Errorf("ready: %v, claimable %d", ready, r.view().Claimable())
	}
	for q := range r.view().Ready() {
		if q.Sequence != first {
			t.Errorf("went on to %v", q.Sequence)
		}
		break
	}
	theirs := r.claims(b, second)
	// In the order named; what is taken, behind another, named twice, or never
	// was is skipped.
	ours := r.claims(a, third, second, behind, first, first, 1<<40, 0)
	if len(ours) != 2 || ours[0].Request.Sequence != third || ours[1].Request.Sequence != first {
		t.Fatalf("claimed %+v", ours)
	}
	for _, c := range append(ours, theirs...) {
		if got, ok := r.view().Claim(c.Claim.Hold()); !ok || got != c.Claim || c.Request.Claim != c.Claim.Token ||
			c.Request.Attempts != 1 {
			t.Errorf("claim %+v is kept as %+v", c, got)
		}
	}
	if ours[0].Claim.Token != ours[1].Claim.Token || ours[0].Claim.Token == theirs[0].Claim.Token {
		t.Errorf("tokens of %+v and %+v", ours, theirs)
	}
	// A token says nothing without its request, nor the other way round.
	mixed := introspection.Hold{Request: second, Token: ours[0].Claim.Token}
	r.refused(ClaimLost, Header{}, introspection.Consume{Claim: mixed})
	if _, ok := r.view().Claim(mixed); ok {
		t.Error("a claim that nobody holds was found")
	}
	r.must(introspection.Consume{Claim: ours[1].Claim.Hold()})
	if got := r.claim(b); got.Request.Sequence != behind {
		t.Errorf("then %+v", got.Request)
	}
	r.must(membership.EndSession{Session: a})
	if got := r.view().Claims(); len(got) != 2 || got[0].Peer != "b" || got[1].Peer != "b" {
		t.Errorf("left are %+v", got)
	}
}

func TestClaimThatIsNewIsAnotherHold(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeA)
	old := r.claim(s)
	r.must(introspection.Release{Claim: old.Claim.Hold()})
	again := r.claim(s)
	r.refused(ClaimLost, Header{Session: s}, introspection.Mark{Claim: old.Claim.Hold(), Hook: "zombie"})
	r.refused(ClaimLost, Header{Session: s},
		introspection.Advance{Claim: old.Claim.Hold(), Event: introspection.EventWait})
	r.must(introspection.Advance{Claim: again.Claim.Hold(), Event: introspection.EventWait, Consume: true})
}

func TestTurnsAreSpacedOut(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeA)
	hold := r.claim(s).Claim.Hold()
	turn := func(gap time.Duration) time.Duration {
		t.Helper()
		var got introspection.Turn
		if err := r.must(introspection.TakeTurn{Claim: hold, Gap: gap}).Decode(&got); err != nil {
			t.Fatal(err)
		}
		return got.Wait
	}
	// The first at once; each of the others a gap after the one before.
	for i, want := range []time.Duration{0, 3, 6, 16} {
		gap := 3 * time.Second
		if i == 2 {
			gap = 10 * time.Second
		}
		if got := turn(gap); got != want*time.Second {
			t.Errorf("turn %d comes after %v, want %vs", i, got, int(want))
		}
	}
	r.pass(4 * time.Second)
	if got := turn(time.Second); got != 15*time.Second {
		t.Errorf("four seconds later: after %v", got)
	}
	r.refused(ClaimLost, Header{},
		introspection.TakeTurn{Claim: introspection.Hold{Request: hold.Request}, Gap: time.Second})
	// An idle throttle saves nothing up.
	r.pass(time.Hour)
	r.start(nodeB)
	s = r.session("a")
	r.claim(s)
	hold = r.claim(s).Claim.Hold()
	if turn(time.Second) != 0 || turn(time.Second) != time.Second {
		t.Error("two turns at once after a pause")
	}
}

// A burst must not use up the turns of what is started later.
func TestTurnsAfterTheDeadlineAreNotTaken(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	for n := range 5 {
		r.start(nodeN(n)) // each has 15 minutes
	}
	for n := range 5 {
		turn := introspection.TakeTurn{Claim: r.claim(s).Claim.Hold(), Gap: 5 * time.Minute}
		if n < 3 {
			r.must(turn)
		} else {
			r.refused(Refused, Header{}, turn)
		}
	}
	r.pass(14 * time.Minute)
	s = r.session("a")
	r.start(nodeA)
	var got introspection.Turn
	for next := range r.view().Ready() {
		if next.Node == nodeA {
			if err := r.must(introspection.TakeTurn{Claim: r.claims(s, next.Sequence)[0].Claim.Hold(),
				Gap: 5 * time.Minute}).Decode(&got); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got.Wait != time.Minute {
		t.Errorf("the turn after three of five minutes comes after 14m0s and %v, want 1m0s", got.Wait)
	}
}

func TestQueueIsBounded(t *testing.T) {
	r := newRig(t)
	const most = introspection.MaxQueue - introspection.ReservedQueue
	for i := range most {
		r.index++
		c := introspection.Start{Node: nodeN(i), Event: introspection.EventStart, Timeout: time.Minute}
		if res := r.state.Apply(Entry{Index: r.index, Term: 2, Data: encoded(t, Header{}, c)}); res.Code != OK {
			t.Fatalf("node %d: %v", i, res.Message)
		}
	}
	r.refused(QueueFull, Header{}, introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: time.Minute})
	r.must(introspection.Start{Node: nodeA, Event: introspection.EventAdopt, Timeout: time.Minute}) // needs no place
	r.refused(QueueFull, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess,
		Document: pack(t, "document")})
	for i := range introspection.ReservedQueue {
		r.index++
		c := introspection.Enqueue{Node: nodeN(i), Event: introspection.EventDelete}
		if res := r.state.Apply(Entry{Index: r.index, Term: 2, Data: encoded(t, Header{}, c)}); res.Code != OK {
			t.Fatalf("queue-reserve: deletion of node %d: %v", i, res.Message)
		}
	}
	r.refused(QueueFull, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
	if _, ok := r.view().Record(nodeB); ok {
		t.Error("a refused start left a record")
	}
}
