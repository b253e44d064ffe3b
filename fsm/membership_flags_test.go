package fsm

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// three is a cluster of three peers with sessions.
func three(t *testing.T) *rig {
	r := newRig(t)
	for _, id := range []string{"a", "b", "c"} {
		r.session(id)
	}
	return r
}

func (r *rig) says(res Result, parts ...string) {
	r.t.Helper()
	for _, part := range parts {
		if !strings.Contains(res.Message, part) {
			r.t.Errorf("refusal %q does not say %q", res.Message, part)
		}
	}
}

func TestMaintenanceLeavesAPeerThatCanLead(t *testing.T) {
	r := three(t)
	r.must(membership.Exclude{Peer: "c", From: membership.FromLeading, On: true})
	began := r.view().MemberFlags("c").MaintenanceWall
	r.pass(1)
	r.wall += 60_000
	r.must(membership.Exclude{Peer: "c", From: membership.FromLeading, On: true})
	if s := r.view().MemberFlags("c"); !s.Maintenance || s.MaintenanceWall != began || began == 0 {
		t.Errorf("c is %+v, in maintenance since %d", s, began)
	}
	r.must(membership.Exclude{Peer: "b", From: membership.FromLeading, On: true})
	r.says(r.refused(Refused, Header{}, membership.Exclude{Peer: "a", From: membership.FromLeading, On: true}),
		"nobody else could lead", "2 other voters", "2 live")
	r.must(membership.Exclude{Peer: "a", From: membership.FromLeading, On: true, Force: true})
	for _, id := range []string{"a", "b", "c"} {
		r.must(membership.Exclude{Peer: id, From: membership.FromLeading})
	}
	if got := r.view().AllMemberFlags(); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	r.refused(NotFound, Header{}, membership.Exclude{Peer: "d", From: membership.FromLeading, On: true})
}

// A peer that refuses to lead, or is dead, is nobody to hand leadership to.
func TestMaintenanceCountsOnlyTheWilling(t *testing.T) {
	r := three(t)
	s, _ := r.view().SessionOf("b")
	r.must(membership.RenewSession{Session: s.ID, Refuses: "its disk hung 3 s ago"})
	s, _ = r.view().SessionOf("c")
	r.must(membership.EndSession{Session: s.ID})
	r.says(r.refused(Refused, Header{}, membership.Exclude{Peer: "a", From: membership.FromLeading, On: true}),
		"2 other voters 1 live")
}

func TestObserversCountInNoMajority(t *testing.T) {
	r := three(t)
	r.must(membership.Exclude{Peer: "c", From: membership.FromVoting, On: true})
	if v := r.view(); len(v.Voters()) != 2 || len(v.VoterSessions()) != 2 || len(v.Members()) != 3 {
		t.Errorf("%d voters, %d of them live, %d members", len(v.Voters()), len(v.VoterSessions()), len(v.Members()))
	}
	s, _ := r.view().SessionOf("b")
	r.must(membership.EndSession{Session: s.ID})
	// Of a and b only a lives: c, which lives, is no help.
	r.says(r.refused(Refused, Header{}, membership.RemoveMember{ID: "a"}), "1 members remain, of which 0 live")
	r.says(r.refused(Refused, Header{}, membership.Exclude{Peer: "a", From: membership.FromVoting, On: true}),
		"1 voters remain, of which 0 live")
	r.must(membership.RemoveMember{ID: "c"}) // nobody needs an observer
	r.must(membership.RemoveMember{ID: "b"})
	if r.view().MemberFlags("c").Observer {
		t.Error("a removed member is still an observer")
	}
}

func TestTheLastVoterStays(t *testing.T) {
	r := newRig(t)
	r.session("a")
	r.must(membership.Observe{Hash: [32]byte{1}, Member: member("b")})
	r.says(r.refused(Refused, Header{}, membership.RemoveMember{ID: "a", Force: true}), "last voter")
	r.says(r.refused(Refused, Header{}, membership.Exclude{Peer: "a", From: membership.FromVoting, On: true, Force: true}),
		"last voter")
	s, _ := r.view().SessionOf("a")
	r.must(membership.EndSession{Session: s.ID})
	heir := member("b2")
	heir.Name = member("a").Name
	r.says(r.refused(Refused, Header{}, membership.Observe{Hash: [32]byte{1}, Member: heir}), "only voter")
}

func TestPromotingADeadObserverIsRefused(t *testing.T) {
	r := three(t)
	r.must(membership.Observe{Hash: [32]byte{1}, Member: member("d")})
	r.says(r.refused(Refused, Header{}, membership.Exclude{Peer: "d", From: membership.FromVoting}), "from 2 to 3")
	r.session("d")
	r.must(membership.Exclude{Peer: "d", From: membership.FromVoting})
	if n := len(r.view().Voters()); n != 4 {
		t.Errorf("%d voters", n)
	}
}

// Whoever joins as an observer is one from its first moment; nothing else about
// a join differs.
func TestObserveIsAJoin(t *testing.T) {
	r := newRig(t)
	r.must(membership.Observe{Hash: [32]byte{1}, Member: member("b")})
	if !r.view().MemberFlags("b").Observer {
		t.Error("it is no observer")
	}
	r.refused(Expired, Header{}, membership.Observe{Hash: [32]byte{2}, Member: member("c")})
	again := member("b2")
	again.Name = member("b").Name
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: again})
	if r.view().MemberFlags("b2").Observer {
		t.Error("a voter took an observer's place and became one")
	}
}

func TestMembersMove(t *testing.T) {
	r := three(t)
	want, _ := r.view().Member("b")
	want.Address = "198.51.100.2:7350"
	r.must(membership.MoveMember{Peer: "b", Address: want.Address})
	m, _ := r.view().Member("b")
	if m != want {
		t.Errorf("b is %+v, want %+v", m, want)
	}
	r.must(membership.MoveMember{Peer: "b", Address: m.Address, Gossip: "198.51.100.2:7351", API: "198.51.100.2:5050"})
	if m, _ := r.view().Member("b"); m.Gossip != "198.51.100.2:7351" || m.API != "198.51.100.2:5050" {
		t.Errorf("b is %+v", m)
	}
	r.says(r.refused(Conflict, Header{}, membership.MoveMember{Peer: "b", Address: member("c").Address}), "host-c")
	r.refused(Conflict, Header{}, membership.MoveMember{Peer: "b", Address: "198.51.100.9:1", Gossip: member("c").Gossip})
	r.refused(NotFound, Header{}, membership.MoveMember{Peer: "d", Address: "198.51.100.9:1"})
}

// The survivor of a recovery votes and leads, whatever was decided of it.
func TestTheSurvivorIsExcludedFromNothing(t *testing.T) {
	r := three(t)
	for _, from := range []membership.Exclusion{membership.FromLeading, membership.FromVoting} {
		r.must(membership.Exclude{Peer: "c", From: from, On: true})
	}
	if err := r.state.Refound(Refound{Index: r.index, Survivor: "c", NewIncarnation: true}); err != nil {
		t.Fatal(err)
	}
	if s := r.view().MemberFlags("c"); !s.IsZero() {
		t.Errorf("the survivor is %+v", s)
	}
	if err := r.view().Check(); err != nil {
		t.Error(err)
	}
}

// A peer of version 1 would stop at these entries, so they are not proposed.
func TestMemberFlagsNeedVersion2(t *testing.T) {
	r := three(t)
	r.older("b", 1)
	for _, c := range []Command{membership.Exclude{}, membership.Observe{}, membership.MoveMember{}} {
		if err := r.view().Admits(c); err == nil || !strings.Contains(err.Error(), "upgrade") ||
			!strings.Contains(err.Error(), "host-b") {
			t.Errorf("%T is admitted beside a peer of version 1: %v", c, err)
		}
	}
}
