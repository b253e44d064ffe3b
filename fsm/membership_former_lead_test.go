package fsm

import (
	"bytes"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Each leadership hears every former member itself, and waits then, also where the
// one before it had shut its doors in order: the old peers may have opened between.
func TestEachLeadershipHearsFormerMembers(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			r := foundedAnew(t)
			r.leads("a")
			r.asLeader(membership.FormerHeard{ID: "b"})
			r.asLeader(membership.FormerHeard{ID: "c"})
			r.pass(w.unknown)
			r.asLeader(w.open(wait))
			r.asLeader(w.shut)

			token, _ := r.leads("a")
			r.pass(time.Hour)
			if res := r.do(Header{Token: token}, w.open(wait)); res.Code != Refused {
				t.Errorf("heard-by-each-leadership: opened although no former member was heard: %+v", res)
			}
			r.asLeader(membership.FormerHeard{ID: "b"})
			r.asLeader(membership.FormerHeard{ID: "c"})
			r.pass(w.unknown - 1)
			if res := r.do(Header{Token: token}, w.open(wait)); res.Code != Refused {
				t.Errorf("heard-by-each-leadership: opened %v after the last former member was heard: %+v", w.unknown-1, res)
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
	rejoin := membership.Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}}
	for name, settle := range map[string]Command{
		"heard":       nil,
		"asked again": rejoin,
		"has come":    membership.OpenSession{Peer: "b2", Boot: "x", Version: Version},
	} {
		t.Run(name, func(t *testing.T) {
			r := foundedAnew(t)
			r.leads("a")
			r.must(rejoin)
			r.asLeader(membership.FormerHeard{ID: "c"})
			token, _ := r.leads("a")
			r.asLeader(membership.FormerHeard{ID: "c"})
			r.pass(time.Hour)
			if res := r.do(Header{Token: token}, doors.PassOpen{Wait: wait}); res.Code != Refused {
				t.Errorf("answered-is-not-rejoined: opened while the old peer may run: %+v", res)
			}
			if settle == nil {
				r.asLeader(membership.FormerHeard{ID: "b"})
			} else {
				r.must(settle)
			}
			r.pass(doors.UnknownPassWait)
			r.asLeader(doors.PassOpen{Wait: wait})
		})
	}
}

// A former member that answers as a peer of the earlier incarnation is not heard any
// more, whatever it was before; what the leadership has open it keeps.
func TestFormerMemberThatRunsIsNotHeard(t *testing.T) {
	r := foundedAnew(t)
	token, _ := r.leads("a")
	r.asLeader(membership.FormerHeard{ID: "b"})
	r.asLeader(membership.FormerHeard{ID: "c"})
	r.pass(doors.UnknownPassWait)
	r.asLeader(doors.PassOpen{Wait: wait})
	r.asLeader(membership.FormerHeard{ID: "b", Running: true})
	if d := r.view().PassDoor(); d.OpenBy != token || d.Unknown {
		t.Errorf("the leadership's own door: %+v", d)
	}
	if res := r.do(Header{Token: token}, doors.AddressTaken{Address: "192.0.2.1", Wait: wait}); res.Code != Refused {
		t.Errorf("running-is-not-heard: the address was taken: %+v", res)
	}
	r.asLeader(membership.FormerHeard{ID: "b"})
	r.pass(doors.UnknownAddressWait - 1)
	if res := r.do(Header{Token: token}, doors.AddressTaken{Address: "192.0.2.1", Wait: wait}); res.Code != Refused {
		t.Errorf("running-is-not-heard: the address was taken %v after it stopped: %+v", doors.UnknownAddressWait-1, res)
	}
	r.pass(1)
	r.asLeader(doors.AddressTaken{Address: "192.0.2.1", Wait: wait})
}

// A member that has moved between a backup and its restore is a former member with
// both addresses: which history is the later one cannot be known. It rejoins from
// either, and a join by token at either ends the wait for it, if the joiner has its
// name. A host of another name shows only that it is at the other address, if it runs.
func TestFormerMemberAtTwoAddresses(t *testing.T) {
	first, second := rejoining("b", "b2"), rejoining("b", "b2")
	first.Address = "elsewhere.example:7350"
	otherFirst, otherSecond := first, second
	otherFirst.Name, otherSecond.Name = "another", "another"
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	backup := snapshot(t, r.view())
	r.must(membership.PutMember{
		Member: membership.Member{ID: "b", Name: first.Name, Address: first.Address, Version: Version}})
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: r.view().MayRun("a")})
	rejoin := func(m membership.Member) Command { return membership.Rejoin{Former: "b", Member: m, Key: [32]byte{1}} }
	join := func(m membership.Member) Command { return membership.UseJoinToken{Hash: [32]byte{9}, Member: m} }
	for _, c := range []struct {
		name  string
		act   Command
		waits string // for, "" if for none
	}{
		{"rejoins from the first", rejoin(first), ""},
		{"rejoins from the second", rejoin(second), ""},
		{"joins at the first", join(first), ""},
		{"joins at the second", join(second), ""},
		{"another host joins at the first", join(otherFirst), second.Address},
		{"another host joins at the second", join(otherSecond), first.Address},
	} {
		file, err := Read(bytes.NewReader(backup))
		if err != nil {
			t.Fatal(err)
		}
		file.Adopt(r.view())
		if err := file.Refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a",
			Former: file.View().MayRun("a")}); err != nil {
			t.Fatal(err)
		}
		if f, _ := file.View().FormerMember("b"); f.Address != first.Address || f.Second != second.Address {
			t.Fatalf("both-addresses: %+v", f)
		}
		next := &rig{t: t, state: file, index: r.index + 1}
		next.must(membership.AddJoinToken{ID: "t", Hash: [32]byte{9}, TTL: time.Hour})
		next.must(c.act)
		f, _ := next.view().FormerMember("b")
		if f.Became == "b2" {
			f = membership.FormerMember{}
		}
		if f.Address != c.waits || f.Second != "" {
			t.Errorf("both-addresses: %s: waits for %+v, want for %q alone", c.name, f, c.waits)
		}
	}
}

// A host that was answered when it asked to rejoin, and died before its first
// session, may have been started as the old peer again. A host that takes the new
// member's name over, elsewhere, says nothing of it.
func TestJoinerInTheNameOfARejoinerEndsNoWait(t *testing.T) {
	r := foundedAnew(t)
	r.must(membership.AddJoinToken{ID: "t", Hash: [32]byte{9}, TTL: time.Hour})
	r.must(membership.Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}})
	namesake := rejoining("b", "b3")
	namesake.Address = "elsewhere.example:7350"
	r.must(membership.UseJoinToken{Hash: [32]byte{9}, Member: namesake})
	token, _ := r.leads("a")
	r.asLeader(membership.FormerHeard{ID: "c"})
	r.pass(time.Hour)
	if res := r.do(Header{Token: token}, doors.PassOpen{Wait: wait}); res.Code != Refused {
		t.Errorf("answered-is-not-rejoined: opened while the old peer may run: %+v", res)
	}
	// the name is taken
	r.refused(Conflict, Header{}, membership.Rejoin{Former: "b", Member: rejoining("b", "b4"), Key: [32]byte{1}})
	r.asLeader(membership.FormerHeard{ID: "b"})
	r.pass(doors.UnknownPassWait)
	r.asLeader(doors.PassOpen{Wait: wait})
}
