package fsm

import (
	"bytes"
	"testing"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// opened opens a session and returns what the log knows of the peer's progress.
func (r *rig) opened(peer string) fencing.Token {
	r.t.Helper()
	var o membership.Opened
	res := r.must(membership.OpenSession{Peer: peer, Boot: "again", Version: Version})
	if err := res.Decode(&o); err != nil {
		r.t.Fatal(err)
	}
	return o.Applied
}

// A member's progress outlives its session, only rises, and ends with the member.
func TestProgressIsRecorded(t *testing.T) {
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	if at := r.opened("b"); !at.IsZero() {
		t.Errorf("a peer that has reported nothing has applied %v", at)
	}
	s := r.session("b")
	r.pass(1)
	r.must(membership.RenewSession{Session: s, Applied: 4})
	r.must(membership.RenewSession{Session: s, Applied: 3})
	r.must(membership.RenewSession{Session: s}) // of a peer that has applied nothing
	want := fencing.At(r.view().Base(), 4)
	r.must(membership.RenewSession{Session: r.session("a"), Applied: 2})
	r.pass(2 * membership.SessionTTL)
	r.must(Probe{})
	if _, ok := r.view().SessionOf("b"); ok {
		t.Fatal("the session lives")
	}
	read, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	if at := read.View().Progress("b"); at != want {
		t.Errorf("in a snapshot the peer has applied %v, want %v", at, want)
	}
	if at := r.opened("b"); at != want {
		t.Errorf("progress-outlives-sessions: the peer has applied %v, want %v", at, want)
	}
	r.must(membership.RenewSession{Session: r.session("b"), Applied: 1 << 40})
	if at := r.view().Progress("b"); at != fencing.At(r.view().Base(), r.index) {
		t.Errorf("of an index that is to come %v is recorded", at)
	}
	r.must(membership.RemoveMember{ID: "b", Force: true})
	if at := r.view().Progress("b"); !at.IsZero() {
		t.Errorf("a removed peer has applied %v", at)
	}
}

// A recovery begins a history in which all that was applied before is less than
// what any peer stores.
func TestProgressIsOfOneHistory(t *testing.T) {
	r := busy(t)
	before := r.view().Progress("b")
	if err := r.state.Refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "b"}); err != nil {
		t.Fatal(err)
	}
	if stored := fencing.At(r.view().Base(), 1); before.IsZero() || stored <= before {
		t.Errorf("the survivor had applied %v, and stores %v now", before, stored)
	}
	if err := r.view().Check(); err != nil {
		t.Error(err)
	}
}

// The members of an older cluster could not read the table.
func TestOlderClustersRecordNoProgress(t *testing.T) {
	r := newRig(t)
	r.older("a", 1)
	s := r.must(membership.OpenSession{Peer: "a", Boot: "x", Version: 1})
	r.must(membership.RenewSession{Session: s.Token, Applied: r.index})
	if at := r.view().Progress("a"); !at.IsZero() || len(s.Value) > 0 {
		t.Errorf("in a cluster of log version %d the progress is %v, the value %x", r.view().ClusterVersion(), at, s.Value)
	}
}
