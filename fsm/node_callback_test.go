package fsm

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// One entry does what three did: nobody could tell the records apart.
func TestTakeIsEnqueueClaimAndBegin(t *testing.T) {
	one, three := newRig(t), newRig(t)
	var records []introspection.Record
	for _, r := range []*rig{one, three} {
		s := r.session("a")
		r.waiting(s, nodeA, macA)
		if r == three {
			c := r.called(s, nodeA, "doc")
			r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess,
				Unprocessed: c.Request.Document, Hook: "next"})
		} else {
			var got introspection.Taken
			res := r.mustAs(Header{Session: s},
				introspection.TakeCallback{Node: nodeA, Document: pack(t, "doc"), Keep: true, Hook: "next"})
			if err := res.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if got.Claimed == nil || got.Claimed.Claim.Hold() != (introspection.Hold{Request: res.Token, Token: res.Token}) ||
				got.Queued.Request != res.Token {
				t.Fatalf("taken: %+v", got)
			}
		}
		claim, held := r.view().ClaimOf(nodeA)
		if !held || claim.Session != s {
			t.Fatalf("claim: %+v", claim)
		}
		if q, _ := r.view().QueuedRequest(claim.Request); q.Attempts != 1 || q.Hook != "next" || len(q.Peers) != 1 {
			t.Errorf("request: %+v", q)
		}
		rec, _ := r.view().Record(nodeA)
		rec.Delivered.Request, rec.Begun, rec.Started, rec.StartedMillis, rec.Deadline = 0, 0, 0, 0, 0
		records = append(records, rec)
	}
	if records[0].State != introspection.NodeProcessing || records[0].Unprocessed.IsZero() ||
		records[0].Delivered != records[1].Delivered {
		t.Errorf("in one entry %+v, in three %+v", records[0], records[1])
	}
}

// What stands before a callback keeps it from being taken, not from being queued.
func TestWhatIsNotExpectedIsQueued(t *testing.T) {
	cases := map[string]struct {
		before func(r *rig)
		joined bool
	}{
		"another callback waits": {before: func(r *rig) {
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(r.t, "other")})
		}},
		"the same callback waits": {joined: true, before: func(r *rig) {
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(r.t, "doc")})
		}},
		"the node is deleted": {before: func(r *rig) {
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
		}},
		"its time is over": {before: func(r *rig) { r.pass(2 * time.Hour) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.waiting(r.session("a"), nodeA, macA)
			c.before(r)
			var got introspection.Taken
			if err := r.mustAs(Header{Session: r.session("b")},
				introspection.TakeCallback{Node: nodeA, Document: pack(t, "doc")}).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if got.Claimed != nil || got.Queued.Request.IsZero() || got.Queued.Joined != c.joined {
				t.Errorf("taken: %+v", got)
			}
			if rec, _ := r.view().Record(nodeA); rec.State != introspection.NodeWaiting {
				t.Errorf("the node is %v", rec.State)
			}
		})
	}
}

func TestTakeNeedsALiveSession(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA, macA)
	r.refused(SessionEnded, Header{}, introspection.TakeCallback{Node: nodeA, Document: pack(t, "doc")})
	r.must(membership.EndSession{Session: s})
	r.refused(SessionEnded, Header{Session: s}, introspection.TakeCallback{Node: nodeA, Document: pack(t, "doc")})
	if KindOf(introspection.TakeCallback{}).Since() != 2 {
		t.Error("a cluster of log version 1 would stop")
	}
}
