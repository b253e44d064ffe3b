package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A removed peer's server ID is recorded, however it was removed, and never
// admitted again.
func TestRemovedIDsStay(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"b", "c", "d"} {
		r.must(membership.PutMember{Member: member(id)})
	}
	r.must(membership.RemoveMember{ID: "b", Force: true})
	successor := member("c2")
	successor.Name = member("c").Name
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: successor})
	for _, id := range []string{"b", "c"} {
		removed, ok := r.view().Removed(id)
		if !ok || removed.Name != member(id).Name || removed.At.IsZero() {
			t.Errorf("peer %s was removed and is recorded as %+v, %v", id, removed, ok)
		}
		r.refused(Conflict, Header{}, membership.PutMember{Member: member(id)})
		r.refused(Conflict, Header{}, membership.UseJoinToken{Hash: [32]byte{1}, Member: member(id)})
	}
	if n := len(r.view().RemovedPeers()); n != 2 {
		t.Errorf("%d removed peers, want 2", n)
	}
}

// A peer that is removed while it cannot be reached acts on its claims until its
// session would have ended: no other peer gets them before, and it gets no more.
func TestRemovedPeerHoldsItsClaimsUntilItsSessionEnds(t *testing.T) {
	r := newRig(t)
	a, b := r.session("a"), r.session("b")
	held := r.processing(b, nodeA, "document").Claim
	r.start(nodeB)
	r.pass(membership.SessionTTL / 2)
	r.must(membership.RenewSession{Session: a})
	r.must(membership.RemoveMember{ID: "b", Force: true})
	if c, ok := r.view().ClaimOf(nodeA); !ok || c.Session != b {
		t.Errorf(
			"removed-holds-claims: half a session after its newest renewal the removed peer may act on %v, and %+v, %v is the claim",
			held, c, ok)
	}
	r.refused(SessionEnded, Header{}, membership.RenewSession{Session: b})
	for next := range r.view().Ready() {
		r.refused(SessionEnded, Header{Session: b}, introspection.ClaimRequests{Requests: []fencing.Token{next.Sequence}})
	}
	back, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil || back.View().Hash() != r.view().Hash() {
		t.Errorf("the state is not read back: %v", err)
	}
	r.refused(SessionEnded, Header{Session: b}, introspection.Mark{Claim: held.Hold(), Hook: "scheduler"})
	r.pass(membership.SessionTTL / 2)
	r.must(Probe{})
	if c, ok := r.view().ClaimOf(nodeA); ok {
		t.Errorf("after its session would have ended the removed peer holds %+v", c)
	}
	if c := r.claim(a); c.Claim.Peer != "a" {
		t.Errorf("the request is claimed by %+v", c.Claim)
	}
}

// A peer that holds no claim has no session from the entry on that removes it.
func TestIdlePeersSessionEndsWithItsRemoval(t *testing.T) {
	r := newRig(t)
	r.session("b")
	r.must(membership.RemoveMember{ID: "b", Force: true})
	if s, ok := r.view().SessionOf("b"); ok {
		t.Errorf("its session is %+v", s)
	}
}

// A restore and a recovery keep the removals.
func TestRemovalsSurviveRestoreAndRecovery(t *testing.T) {
	before := busy(t)
	backup := snapshot(t, before.view())
	before.must(membership.PutMember{Member: member("late")})
	before.must(membership.RemoveMember{ID: "late", Force: true})
	restored, err := Read(bytes.NewReader(backup))
	if err != nil {
		t.Fatal(err)
	}
	restored.Adopt(before.view())
	if err := restored.Refound(Refound{Index: before.index, NewIncarnation: true, Survivor: "b"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"removed", "late", "a"} {
		if _, ok := restored.View().Removed(id); !ok {
			t.Errorf("after a restore peer %s is not recorded as removed", id)
		}
	}
	if err := restored.Refound(
		Refound{Index: before.index, NewIncarnation: true, Survivor: "late", Self: member("late")}); err == nil {
		t.Error("a removed peer founded a cluster under its old ID")
	}
	if err := restored.View().Check(); err != nil {
		t.Error(err)
	}
}

// A cluster whose members do not all know the table records no removals: its
// snapshots stay readable to all of them.
func TestOlderClustersRecordNoRemovals(t *testing.T) {
	r := newRig(t)
	older := member("b")
	older.Version = 1
	r.must(membership.PutMember{Member: member("c")})
	r.older("a", 1)
	r.must(membership.RemoveMember{ID: "c", Force: true})
	if n := len(r.view().RemovedPeers()); n != 0 {
		t.Errorf("%d removed peers in a cluster of log version %d", n, r.view().ClusterVersion())
	}
	r.must(membership.PutMember{Member: older})
	r.must(membership.OpenSession{Peer: "a", Boot: "y", Version: 2})
	r.must(membership.RemoveMember{ID: "b", Force: true})
	if n := len(r.view().RemovedPeers()); n != 1 {
		t.Errorf("%d removed peers once every member knows the table, want 1", n)
	}
}

func TestTooManyRemovalsForgetTheOldest(t *testing.T) {
	r := newRig(t)
	d := *r.state.now
	for i := range membership.MaxRemoved {
		id := fmt.Sprintf("gone-%04d", membership.MaxRemoved-i)
		load(t, &d, 'X', membership.RemovedPeer{ID: id, At: 1})
	}
	d.shared.Position.Now = Time(time.Second)
	r.state.now = &d
	r.must(membership.PutMember{Member: member("b")})
	r.must(membership.RemoveMember{ID: "b", Force: true})
	if _, ok := r.view().Removed("gone-0001"); ok || len(r.view().RemovedPeers()) != membership.MaxRemoved {
		t.Errorf("%d removed peers; the oldest is still there: %v", len(r.view().RemovedPeers()), ok)
	}
	if _, ok := r.view().Removed("b"); !ok {
		t.Error("the newest removal was not recorded")
	}
}
