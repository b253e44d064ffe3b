package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// After a time without a leader, in which cluster time stood still, no machine is started or let in
// for an introspection that is over by the wall clock. What has called goes on, and a change of
// leader ends nothing.
func TestOverdueIntrospectionsEndWithALeadership(t *testing.T) {
	waits := func(r *rig) { r.waiting(r.session("w"), nodeA, macN(1)) }
	for _, c := range []struct {
		name    string
		version int
		begins  func(*rig)
		passes  func(*rig)
		ends    bool
	}{
		{"a start that waits for a worker", Version, func(r *rig) { r.start(nodeA, macN(1)) }, (*rig).weekend, true},
		{"a start that a worker has", Version, func(r *rig) {
			s := r.session("w")
			r.start(nodeA, macN(1))
			r.claim(s)
		}, (*rig).weekend, true},
		{"a machine that is waited for", Version, waits, (*rig).weekend, true},
		{"an abort of it", Version, func(r *rig) {
			waits(r)
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
		}, (*rig).weekend, true},
		{"it has called", Version, func(r *rig) {
			waits(r)
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(r.t, "{}")})
		}, (*rig).weekend, false},
		{"it has called while it was started", Version, func(r *rig) {
			r.start(nodeA, macN(1))
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(r.t, "{}")})
		}, (*rig).weekend, false},
		{"a change of leader at the end of its time", Version, waits,
			func(r *rig) { r.wall += (15*time.Minute + 30*time.Second).Milliseconds() }, false},
		{"its time is not over", Version, waits, func(r *rig) { r.wall += (14 * time.Minute).Milliseconds() }, false},
		{"its time is over by cluster time", Version, waits, func(r *rig) { r.pass(17 * time.Minute) }, false},
		{"an older peer has a vote", Version - 1, waits, (*rig).weekend, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRigAt(t, c.version)
			r.leads("a")
			c.begins(r)
			c.passes(r)
			before := r.view()
			r.leads("b")
			rec, _ := r.view().Record(nodeA)
			if err := stepsTold(before, r.view()); err != nil {
				t.Errorf("overdue-told: %v", err)
			}
			queued := len(r.view().QueueOf(nodeA))
			if rec.State.Active() == c.ends || c.ends && (queued > 0 || rec.FinishedMillis != r.wall) {
				t.Errorf("overdue-ends: it is %v, with %d requests, ended at %d of %d", rec.State, queued, rec.FinishedMillis,
					r.wall)
			}
			if r.view().Introspecting() == c.ends || r.view().Allowed(macN(1)) == c.ends {
				t.Errorf("overdue-shut: its machine is let in: %t, the pass rule may be open: %t", r.view().Allowed(macN(1)),
					r.view().Introspecting())
			}
		})
	}
}

// weekend is a time without a leader.
func (r *rig) weekend() { r.wall += (60 * time.Hour).Milliseconds() }

// stepsTold fails if one entry took a node's introspection to another state and no event of it says so.
func stepsTold(before, after View) error {
	for _, node := range []string{nodeA, nodeB} {
		old, _ := before.Record(node)
		rec, known := after.Record(node)
		if !known || old.State == rec.State {
			continue
		}
		var last eventring.Event
		for e := range after.Events().After(before.Events().Last()) {
			if e := e.Decode(); e.Topic == eventring.TopicIntrospection && e.Node == node {
				last = e
			}
		}
		if last.Action != rec.State.String() && last.Action != eventring.ActionImported {
			return fmt.Errorf("node %s went from %v to %v, and the last event of it is %q", node, old.State, rec.State,
				last.Action)
		}
	}
	return nil
}
