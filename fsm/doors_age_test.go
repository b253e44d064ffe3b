package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A leadership of a later term that has proven the end of the one before opens at once.
func TestProofOfAgeShortensTheWait(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		first, _ := r.leads("a")
		r.asLeader(w.open(wait))
		if d := w.door(r.view()); d.Term != r.term || d.Index != r.index {
			t.Errorf("opened by entry %d of term %d: %+v", r.index, r.term, d)
		}
		r.term++
		second, led := r.leads("b")
		if d := w.led(led); d.OpenBy != first || d.Term != r.term-1 {
			t.Errorf("found %+v", d)
		}
		r.asLeader(w.aged(first))
		if d := w.door(r.view()); d.OpenBy != second || d.Peer != "b" || d.Since != r.now || d.Term != r.term ||
			d.Index != r.index {
			t.Errorf("by-age: opened %+v", d)
		}
		r.term++ // and the next one after that
		r.leads("a")
		r.refused(Refused, Header{Token: r.view().Leadership().Token}, w.aged(first))
		r.asLeader(w.aged(second))
	})
}

// Proof does not shorten the wait for what it does not cover.
func TestProofOfAgeThatProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig) // the first leadership opens
		then   func(r *rig) // it was lost
		proven func(first, second fencing.Token) fencing.Token
	}{
		"none":             {proven: func(_, _ fencing.Token) fencing.Token { return 0 }},
		"of another":       {proven: func(first, _ fencing.Token) fencing.Token { return first - 1 }},
		"of its own":       {proven: func(_, second fencing.Token) fencing.Token { return second }},
		"of the same term": {then: func(r *rig) { r.term-- }},
		"recorded in a cluster with an older member": {
			before: func(r *rig) { r.older("a", 1) }, then: func(r *rig) { r.older("a", 2) }},
		"in a cluster with an older member": {then: func(r *rig) { r.older("a", 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, r *rig, w way) {
				if c.before != nil {
					c.before(r)
				}
				first, _ := r.leads("a")
				r.asLeader(w.open(wait))
				r.term++
				if c.then != nil {
					c.then(r)
				}
				second, _ := r.leads("b")
				proven := first
				if c.proven != nil {
					proven = c.proven(first, second)
				}
				h := Header{Token: second}
				r.pass(wait - 1)
				if res := r.do(h, w.aged(proven)); res.Code != Refused || !strings.Contains(res.Message, "peer a may have") {
					t.Errorf("by-age: opened early: %+v", res)
				}
				r.pass(1)
				r.mustAs(h, w.aged(proven))
			})
		})
	}
}

// Where it is not known who has a door open, no proof counts: not after a founding, and
// not while former members were not heard.
func TestProofOfAgeAfterAFounding(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			r := newRig(t)
			r.must(membership.PutMember{Member: member("b")})
			first, _ := r.leads("a")
			r.asLeader(w.open(wait))
			r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: r.view().MayRun("a")})
			if d := w.door(r.view()); d.Term != 0 || d.Index != 0 {
				t.Errorf("founded again: %+v", d)
			}
			r.term++
			token, _ := r.leads("a")
			h := Header{Token: token}
			for _, proven := range []fencing.Token{0, first} {
				if res := r.do(h, w.aged(proven)); res.Code != Refused || !strings.Contains(res.Message, "not heard") {
					t.Errorf("by-age: opened before a former member was heard: %+v", res)
				}
			}
			r.asLeader(membership.FormerHeard{ID: "b"})
			r.pass(w.unknown - 1)
			for _, proven := range []fencing.Token{0, first} {
				if res := r.do(h, w.aged(proven)); res.Code != Refused || !strings.Contains(res.Message, "not known") {
					t.Errorf("by-age: opened an unknown door early: %+v", res)
				}
			}
			r.pass(1)
			r.asLeader(w.aged(first))
		})
	}
}

// The same opened again is recorded at its new place, without an event: only so does the
// door count as recorded after a change of the members.
func TestOpenedAgainIsRecordedAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		r.older("a", 1)
		r.leads("a")
		r.asLeader(w.open(wait))
		if d := w.door(r.view()); d.Term != 0 || d.Index != 0 {
			t.Errorf("a member of log version 1 cannot read %+v", d)
		}
		r.older("a", 2)
		events := r.view().Events().Last()
		for range 2 {
			r.pass(time.Second)
			r.asLeader(w.open(wait))
			if d := w.door(r.view()); d.Term != r.term || d.Index != r.index || d.Since != 0 {
				t.Errorf("recorded-again: entry %d of term %d: %+v", r.index, r.term, d)
			}
		}
		if now := r.view().Events().Last(); now != events {
			t.Errorf("events after %v, up to %v", events, now)
		}
	})
}

// In a cluster with a member of v0.1.0 nothing is written that it does not read.
func TestOlderMembersReadDoors(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		r.older("a", 1)
		first, _ := r.leads("a")
		if err := r.view().Admits(w.aged(first)); err == nil || !strings.Contains(err.Error(), "needs log version 2") {
			t.Errorf("proof is proposed: %v", err)
		}
		if err := r.view().Admits(w.open(wait)); err != nil {
			t.Errorf("without proof: %v", err)
		}
		r.asLeader(w.open(wait))
		var door struct { // of v0.1.0
			OpenBy   fencing.Token `cbor:"1,keyasint,omitempty"`
			Peer     string        `cbor:"2,keyasint,omitempty"`
			Since    Time          `cbor:"3,keyasint,omitempty"`
			Wall     int64         `cbor:"4,keyasint,omitempty"`
			Unknown  bool          `cbor:"5,keyasint,omitempty"`
			ClosedBy fencing.Token `cbor:"6,keyasint,omitempty"`
			Wait     time.Duration `cbor:"7,keyasint,omitempty"`
			Address  string        `cbor:"8,keyasint,omitempty"`
		}
		if err := codec.Unmarshal(codec.Marshal(w.door(r.view())), &door); err != nil {
			t.Errorf("older-members: the door: %v", err)
		}
		var body struct {
			First  any           `cbor:"1,keyasint,omitempty"`
			Second time.Duration `cbor:"2,keyasint,omitempty"` // of the address alone: Wait
		}
		if err := codec.Unmarshal(codec.Marshal(w.open(wait)), &body); err != nil {
			t.Errorf("older-members: the command: %v", err)
		}
		r.older("a", 2)
		if err := r.view().Admits(w.aged(first)); err != nil {
			t.Errorf("in a cluster of log version 2: %v", err)
		}
	})
}
