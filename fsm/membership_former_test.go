package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// formerOf is the former member that a member of this ID would be.
func formerOf(id string) membership.FormerMember {
	m := member(id)
	return membership.FormerMember{ID: m.ID, Name: m.Name, Address: m.Address, Gossip: m.Gossip}
}

// rejoining is the host of a former member under a new server ID.
func rejoining(former, id string) membership.Member {
	m := member(former)
	m.ID = id
	return m
}

// formerMember puts a former member that was heard in place, in a history that goes on.
func (r *rig) formerMember(id string) {
	r.t.Helper()
	d := *r.state.now
	f := formerOf(id)
	f.Heard = true
	load(r.t, &d, 'X', membership.RemovedPeer{ID: id, Name: f.Name, At: 1})
	load(r.t, &d, 'f', f)
	r.state.now = &d
}

// foundedAnew is a cluster of a, b, c and d that was founded again on a: b and c are
// former members, d was named lost.
func foundedAnew(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	for _, id := range []string{"b", "c", "d"} {
		r.must(membership.PutMember{Member: member(id)})
	}
	r.must(membership.Exclude{Peer: "c", From: membership.FromVoting, On: true, Force: true})
	r.must(Lead{Peer: "b", Boot: "x"})
	r.asLeader(doors.PassOpen{Wait: wait})
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: r.view().MayRun("a")[:2]})
	return r
}

func (r *rig) refound(to Refound) {
	r.t.Helper()
	if err := r.state.Refound(to); err != nil {
		r.t.Fatal(err)
	}
	if err := r.view().Check(); err != nil {
		r.t.Fatal(err)
	}
	r.index = to.Index
}

// Former members are removed peers that may rejoin; a lost one may not.
func TestFoundingAnewRecordsFormerMembers(t *testing.T) {
	r := foundedAnew(t)
	former := r.view().FormerMembers()
	if len(former) != 2 || former[0] != formerOf("b") || former[1].ID != "c" || !former[1].Observer {
		t.Errorf("former members: %+v", former)
	}
	for _, id := range []string{"b", "c", "d"} {
		if _, removed := r.view().Removed(id); !removed {
			t.Errorf("former: peer %s is not recorded as removed", id)
		}
		r.refused(Conflict, Header{}, membership.PutMember{Member: member(id)})
	}
	r.refused(Refused, Header{}, membership.Rejoin{Former: "d", Member: rejoining("d", "d2"), Key: [32]byte{1}})
	if n := len(r.view().Members()); n != 1 {
		t.Errorf("%d members", n)
	}
}

// No door opens before each former member was heard, and none before the last
// one's kernel has closed what it may have kept open.
func TestDoorsWaitForFormerMembers(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			r := foundedAnew(t)
			token, _ := r.leads("a")
			h := Header{Token: token}
			r.pass(time.Hour)
			if res := r.refused(Refused, h, w.open(wait)); !strings.Contains(res.Message,
				"host-b (b.example:7350), host-c (c.example:7350)") {
				t.Errorf("refused: %s", res.Message)
			}
			r.asLeader(membership.FormerHeard{ID: "b"})
			r.pass(time.Hour)
			if res := r.refused(Refused, h, w.open(wait)); strings.Contains(res.Message, "host-b") ||
				!strings.Contains(res.Message, "host-c") {
				t.Errorf("former-not-heard: refused: %s", res.Message)
			}
			r.refused(Refused, Header{}, membership.FormerHeard{ID: "c"}) // no duty's
			r.asLeader(membership.FormerHeard{ID: "c"})
			r.pass(w.unknown - 1)
			if res := r.do(h, w.open(wait)); res.Code != Refused {
				t.Errorf("former-kernel-waited-for: opened %v after the last former member was heard: %+v", w.unknown-1, res)
			}
			r.asLeader(membership.FormerHeard{ID: "c"}) // again changes nothing
			r.pass(1)
			r.asLeader(w.open(wait))
			if d := w.door(r.view()); d.OpenBy != token || d.Unknown {
				t.Errorf("opened: %+v", d)
			}
		})
	}
}

// A host that died after the founding is named lost by its removal.
func TestRemovingAFormerMemberNamesItLost(t *testing.T) {
	r := foundedAnew(t)
	r.leads("a")
	r.asLeader(membership.FormerHeard{ID: "b"})
	r.must(membership.RemoveMember{ID: "c"})
	r.refused(NotFound, Header{}, membership.RemoveMember{ID: "c"})
	r.refused(Refused, Header{}, membership.Rejoin{Former: "c", Member: rejoining("c", "c2"), Key: [32]byte{1}})
	if _, removed := r.view().Removed("c"); !removed {
		t.Error("its certificate is good again")
	}
	r.refused(Refused, Header{Token: r.view().Leadership().Token}, doors.PassOpen{Wait: wait})
	r.pass(doors.UnknownPassWait)
	r.asLeader(doors.PassOpen{Wait: wait})
}

// A host rejoins once; the same request again has the same answer until the new
// member has opened a session.
func TestAFormerMemberRejoinsOnce(t *testing.T) {
	r := foundedAnew(t)
	rejoin := membership.Rejoin{Former: "c", Member: rejoining("c", "c2"), Key: [32]byte{1}}
	moved := rejoin
	moved.Member.Address = "elsewhere:1"
	r.refused(Refused, Header{}, moved)
	r.refused(Conflict, Header{}, membership.Rejoin{Former: "c", Member: rejoining("c", "a"), Key: [32]byte{1}})
	older := rejoin
	older.Member.Version = Version - 1
	r.refused(Refused, Header{}, older)
	if f, _ := r.view().FormerMember("c"); f.Heard || f.Became != "" {
		t.Errorf("rejoin-is-admitted: it was refused, and its record is %+v", f)
	}
	r.must(rejoin)
	r.must(rejoin)
	stolen := membership.Rejoin{Former: "c", Member: rejoining("c", "c3"), Key: [32]byte{2}}
	r.refused(Conflict, Header{}, stolen)
	stolen.Member.ID = "c2"
	r.refused(Conflict, Header{}, stolen)
	if m, ok := r.view().Member("c2"); !ok || m.Address != "c.example:7350" || !r.view().MemberFlags("c2").Observer {
		t.Errorf("rejoined as %+v, %+v", m, r.view().MemberFlags("c2"))
	}
	if f, _ := r.view().FormerMember("c"); !f.Heard || f.Became != "c2" {
		t.Errorf("its record is %+v", f)
	}
	r.must(membership.OpenSession{Peer: "c2", Boot: "x", Version: Version})
	r.refused(Refused, Header{}, rejoin)
	r.refused(Refused, Header{}, stolen)
	if _, waits := r.view().FormerMember("c"); waits {
		t.Error("it is still waited for")
	}
}

// A former member rejoins at no address that a member has moved to since.
func TestRejoinAtAnotherMembersAddress(t *testing.T) {
	r := foundedAnew(t)
	r.must(membership.MoveMember{Peer: "a", Address: member("b").Address})
	rejoin := membership.Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}}
	if res := r.do(Header{}, rejoin); res.Code != Conflict {
		t.Errorf("rejoin-at-anothers-address: %+v", res)
	}
	r.must(membership.MoveMember{Peer: "a", Address: member("a").Address})
	r.must(rejoin)
}

// A rejoined member that is removed before its first session may not be asked for again.
func TestARemovedRejoinerStaysRemoved(t *testing.T) {
	r := foundedAnew(t)
	rejoin := membership.Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}}
	r.must(rejoin)
	r.must(membership.RemoveMember{ID: "b2", Force: true})
	r.refused(Refused, Header{}, rejoin)
}

// A join by token at a former member's address ends the wait for it: another host
// that takes its name over does not.
func TestATokenJoinReplacesAFormerMemberAtItsAddress(t *testing.T) {
	r := foundedAnew(t)
	r.must(membership.AddJoinToken{ID: "t", Hash: [32]byte{9}, TTL: time.Hour})
	named := member("new")
	named.Name = member("b").Name
	r.must(membership.UseJoinToken{Hash: [32]byte{9}, Member: named})
	if _, waits := r.view().FormerMember("b"); !waits {
		t.Error("another host with its name ended the wait")
	}
	r.must(membership.UseJoinToken{Hash: [32]byte{9}, Member: rejoining("c", "c2")})
	if _, waits := r.view().FormerMember("c"); waits {
		t.Error("its own host joined by token and is still waited for")
	}
}

// A second founding waits for the members and for the former members of the first.
func TestFoundingAnewTwice(t *testing.T) {
	r := foundedAnew(t)
	r.must(membership.Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}})
	may := r.view().MayRun("a")
	if got := fmt.Sprint(may); got != "[host-b (b.example:7350) host-c (c.example:7350)]" || may[0].ID != "b2" ||
		!may[1].Observer {
		t.Errorf("may run: %v", got)
	}
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: may})
	if got := r.view().FormerMembers(); len(got) != 2 || got[0].ID != "b2" || got[1].ID != "c" {
		t.Errorf("former members: %+v", got)
	}
	_, removed := r.view().Removed("d")
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a",
		Former: []membership.FormerMember{formerOf("d")}})
	got := r.view().FormerMembers()
	if _, still := r.view().Removed("d"); !removed || !still || len(got) != 1 || got[0].ID != "d" {
		t.Errorf("doors-wait: d, whose removal is not proven (%v, %v), is not waited for: %+v", removed, still, got)
	}
}

// An older cluster is refounded too: what it may still run is recorded in any case.
func TestFoundingAnewOfAnOlderCluster(t *testing.T) {
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	r.older("a", 1)
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: r.view().MayRun("a")})
	if len(r.view().FormerMembers()) != 1 || r.view().ClusterVersion() != 2 { // that which brought them
		t.Errorf("log version %d, former members %v", r.view().ClusterVersion(), r.view().FormerMembers())
	}
}

func TestRefoundRefusesBadFormerMembers(t *testing.T) {
	r := foundedAnew(t)
	before := r.view().Hash()
	many := make([]membership.FormerMember, membership.MaxFormer+1)
	for i := range many {
		many[i] = formerOf(fmt.Sprint("m", i))
	}
	for name, bad := range map[string]Refound{
		"no survivor":  {Former: []membership.FormerMember{formerOf("b")}},
		"the survivor": {Survivor: "a", Former: []membership.FormerMember{formerOf("a")}},
		"twice":        {Survivor: "a", Former: []membership.FormerMember{formerOf("b"), formerOf("b")}},
		"no address":   {Survivor: "a", Former: []membership.FormerMember{{ID: "b", Name: "b"}}},
		"too many":     {Survivor: "a", Former: many},
		"another peer": {Survivor: "unknown", Self: member("late")},
	} {
		bad.Index = r.index
		var refused *Error
		if err := r.state.Refound(bad); !errors.As(err, &refused) || r.view().Hash() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Former members are in snapshots and survive a restore; theirs are not the ones
// whose removal is forgotten for want of room.
func TestFormerMembersStay(t *testing.T) {
	r := foundedAnew(t)
	back, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	back.Adopt(r.view())
	if err := back.Refound(Refound{Index: r.index}); err != nil {
		t.Fatal(err)
	}
	if got := back.View().FormerMembers(); len(got) != 2 || got[0].Heard {
		t.Errorf("after a restore: %+v", got)
	}
	d := *r.state.now
	for i := range membership.MaxRemoved - len(d.RemovedPeers()) {
		id := fmt.Sprintf("gone-%04d", i)
		load(t, &d, 'X', membership.RemovedPeer{ID: id, At: d.shared.Granted()})
	}
	r.state.now = &d
	r.must(membership.PutMember{Member: member("e")})
	r.must(membership.RemoveMember{ID: "e", Force: true})
	for _, id := range []string{"b", "c"} {
		if _, removed := r.view().Removed(id); !removed {
			t.Errorf("the removal of former member %s was forgotten", id)
		}
	}
}

// A host that was founded again and goes back to a backup of before still waits for
// the former members that it has not heard.
func TestRestoreOnAFounderWaitsForFormerMembers(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"b", "c"} {
		r.must(membership.PutMember{Member: member(id)})
	}
	var backup bytes.Buffer
	if _, err := r.view().WriteTo(&backup); err != nil {
		t.Fatal(err)
	}
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: r.view().MayRun("a")})
	file, err := Read(&backup)
	if err != nil {
		t.Fatal(err)
	}
	others := r.view().MayRun("a")
	file.Adopt(r.view())
	if err := file.Refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: others}); err != nil {
		t.Fatal(err)
	}
	if got := len(file.View().FormerMembers()); got != 2 {
		t.Errorf("doors-wait: %d former members are waited for, not b and c", got)
	}
}

// A backup of between a founding and a rejoin, restored on the founder, revives no
// former member that has rejoined since, or was named lost.
func TestRestoreRevivesNoSettledFormerMember(t *testing.T) {
	r := foundedAnew(t)
	backup := snapshot(t, r.view())
	r.must(membership.Rejoin{Former: "b", Member: rejoining("b", "b2"), Key: [32]byte{1}})
	r.must(membership.OpenSession{Peer: "b2", Boot: "x", Version: Version})
	r.must(membership.RemoveMember{ID: "c"})
	file, err := Read(bytes.NewReader(backup))
	if err != nil {
		t.Fatal(err)
	}
	file.Adopt(r.view())
	if err := file.Refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a",
		Former: file.View().MayRun("a")}); err != nil {
		t.Fatal(err)
	}
	for _, f := range file.View().FormerMembers() {
		if f.ID == "b" || f.ID == "c" {
			t.Errorf("settled-stays: %s may rejoin by the certificate of before", f.ID)
		}
	}
}
