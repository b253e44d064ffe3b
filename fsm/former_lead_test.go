package fsm

import (
	"testing"
	"time"
)

// Each leadership hears every former member itself, and waits then, also where the
// one before it had shut its doors in order: the old peers may have opened between.
func TestEachLeadershipHearsFormerMembers(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			r := foundedAnew(t)
			r.leads("a")
			r.asLeader(FormerHeard{ID: "b"})
			r.asLeader(FormerHeard{ID: "c"})
			r.pass(wait)
			r.asLeader(w.open(wait))
			r.asLeader(w.shut)

			token, _ := r.leads("a")
			r.pass(time.Hour)
			if res := r.do(Header{Token: token}, w.open(wait)); res.Code != Refused {
				t.Errorf("heard-by-each-leadership: opened although no former member was heard: %+v", res)
			}
			r.asLeader(FormerHeard{ID: "b"})
			r.asLeader(FormerHeard{ID: "c"})
			r.pass(wait - 1)
			if res := r.do(Header{Token: token}, w.open(wait)); res.Code != Refused {
				t.Errorf("heard-by-each-leadership: opened %v after the last former member was heard: %+v", wait-1, res)
			}
			r.pass(1)
			r.asLeader(w.open(wait))
		})
	}
}

// A host whose request to rejoin was answered has not rejoined: it may have died
// before the answer was on its disk, and its old peer may run. The next leadership
// waits until it was heard, has asked again, or its new peer has a session.
func TestAnsweredRejoinerIsHeardByTheNextLeadership(t *testing.T) {
	rejoin := Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}}
	for name, settle := range map[string]Command{
		"heard":       nil,
		"asked again": rejoin,
		"has come":    OpenSession{Peer: "b2", Boot: "x", Version: Version},
	} {
		t.Run(name, func(t *testing.T) {
			r := foundedAnew(t)
			r.leads("a")
			r.must(rejoin)
			r.asLeader(FormerHeard{ID: "c"})
			token, _ := r.leads("a")
			r.asLeader(FormerHeard{ID: "c"})
			r.pass(time.Hour)
			if res := r.do(Header{Token: token}, PassOpen{Wait: wait}); res.Code != Refused {
				t.Errorf("answered-is-not-rejoined: opened while the old peer may run: %+v", res)
			}
			if settle == nil {
				r.asLeader(FormerHeard{ID: "b"})
			} else {
				r.must(settle)
			}
			r.pass(wait)
			r.asLeader(PassOpen{Wait: wait})
		})
	}
}

// A former member that answers as a peer of the earlier incarnation is not heard any
// more, whatever it was before; what the leadership has open it keeps.
func TestFormerMemberThatRunsIsNotHeard(t *testing.T) {
	r := foundedAnew(t)
	token, _ := r.leads("a")
	r.asLeader(FormerHeard{ID: "b"})
	r.asLeader(FormerHeard{ID: "c"})
	r.pass(wait)
	r.asLeader(PassOpen{Wait: wait})
	r.asLeader(FormerHeard{ID: "b", Running: true})
	if d := r.view().PassDoor(); d.OpenBy != token || d.Unknown {
		t.Errorf("the leadership's own door: %+v", d)
	}
	if res := r.do(Header{Token: token}, AddressTaken{Address: "192.0.2.1", Wait: wait}); res.Code != Refused {
		t.Errorf("running-is-not-heard: the address was taken: %+v", res)
	}
	r.asLeader(FormerHeard{ID: "b"})
	r.pass(wait - 1)
	if res := r.do(Header{Token: token}, AddressTaken{Address: "192.0.2.1", Wait: wait}); res.Code != Refused {
		t.Errorf("running-is-not-heard: the address was taken %v after it stopped: %+v", wait-1, res)
	}
	r.pass(1)
	r.asLeader(AddressTaken{Address: "192.0.2.1", Wait: wait})
}
