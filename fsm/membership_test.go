package fsm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
)

func TestLeadFencesEveryOlderToken(t *testing.T) {
	r := newRig(t)
	first := r.must(Lead{Peer: "a", Boot: "1"}).Token
	r.mustAs(Header{Token: first}, Probe{})
	second := r.must(Lead{Peer: "a", Boot: "1"}).Token
	if second <= first {
		t.Fatalf("token %v follows %v", second, first)
	}
	res := r.refused(StaleToken, Header{Token: first}, settings.PutSetting{Key: "k", Value: "old"})
	if !errors.Is(res.Err(), StaleToken) {
		t.Errorf("error is %v, not StaleToken", res.Err())
	}
	r.refused(StaleToken, Header{Token: second + 1}, Probe{})
	r.mustAs(Header{Token: second}, settings.PutSetting{Key: "k", Value: "new"})
	want := entry.Leadership{Token: second, Peer: "a", Boot: "1", Term: 2, Index: uint64(second)}
	if got := r.view().Leadership(); got != want {
		t.Errorf("leadership %+v, want %+v", got, want)
	}
	if r.view().Floor() != second {
		t.Errorf("floor %v, want %v", r.view().Floor(), second)
	}
}

func TestSessionLivesFromRenewalToRenewal(t *testing.T) {
	r := newRig(t)
	id := r.session("a")
	for range 5 {
		r.pass(membership.SessionTTL - 1)
		r.must(membership.RenewSession{Session: id, Applied: r.index, WallMillis: r.wall + 1500, Refuses: "maintenance",
			NoIronic: true})
	}
	s, ok := r.view().SessionOf("a")
	if !ok || s.ID != id || s.SkewMillis != 1500 || s.Applied != r.index-1 || s.Refuses != "maintenance" || !s.NoIronic {
		t.Errorf("session is %+v, %v", s, ok)
	}
	r.pass(membership.SessionTTL - 1)
	r.must(Probe{})
	if _, ok := r.view().Session(id); !ok {
		t.Error("the session ended before its ttl")
	}
	r.pass(1)
	r.must(Probe{}) // any entry lets time pass
	if _, ok := r.view().Session(id); ok {
		t.Error("the session outlived its ttl")
	}
	r.refused(SessionEnded, Header{}, membership.RenewSession{Session: id})
	r.refused(SessionEnded, Header{Session: id, Request: r.request()}, Probe{})
}

func TestOpeningAnewEndsTheOlderSession(t *testing.T) {
	r := newRig(t)
	old := r.session("a")
	id := r.session("a")
	if _, ok := r.view().Session(old); ok || id <= old {
		t.Errorf("session %v lives beside %v", old, id)
	}
	if n := len(r.view().Sessions()); n != 1 {
		t.Errorf("%d sessions", n)
	}
	r.must(membership.EndSession{Session: old})
	if _, ok := r.view().SessionOf("a"); !ok {
		t.Error("ending the old session ended the new one")
	}
	r.must(membership.EndSession{Session: id})
	r.must(membership.EndSession{Session: id})
	r.refused(Refused, Header{}, membership.OpenSession{Peer: "stranger", Boot: "1", Version: 1})
}

func TestClusterVersionIsTheLeastOfAllMembers(t *testing.T) {
	r := newRig(t)
	newer := member("b")
	newer.Version = Version + 2
	r.must(membership.PutMember{Member: newer})
	if got := r.view().ClusterVersion(); got != Version {
		t.Errorf("version %d with members of %d and two more", got, Version)
	}
	r.must(membership.OpenSession{Peer: "a", Boot: "2", Version: Version + 1, Binary: "v2", API: "192.0.2.1:5050"})
	if got := r.view().ClusterVersion(); got != Version+1 {
		t.Errorf("version %d after the peer came back with the next", got)
	}
	for _, old := range []int{Version, 1} { // what the older binary cannot read may be in the state
		r.refused(Outdated, Header{}, membership.OpenSession{Peer: "a", Boot: "3", Version: old})
		r.refused(Outdated, Header{}, membership.OpenSession{Peer: "b", Boot: "3", Version: old})
	}
	if got := r.view().ClusterVersion(); got != Version+1 {
		t.Errorf("session-lowers-the-version: version %d after a peer came back with an older binary", got)
	}
	if m, _ := r.view().Member("a"); m.Binary != "v2" || m.API != "192.0.2.1:5050" {
		t.Errorf("member is %+v", m)
	}
	res := r.refused(Refused, Header{}, membership.PutMember{Member: member("old")})
	if !strings.Contains(res.Message, "upgrade") {
		t.Errorf("refusal %q does not say what to do", res.Message)
	}
	r.must(membership.RemoveMember{ID: "a", Force: true})
	if got := r.view().ClusterVersion(); got != Version+2 {
		t.Errorf("version %d with one member, of %d", got, Version+2)
	}
}

func TestRemovingAMemberEndsItsSession(t *testing.T) {
	r := newRig(t)
	r.session("a")
	r.session("b")
	r.must(membership.RemoveMember{ID: "b"})
	if len(r.view().Sessions()) != 1 || len(r.view().Members()) != 1 {
		t.Errorf("left: %+v, %+v", r.view().Sessions(), r.view().Members())
	}
	r.refused(NotFound, Header{}, membership.RemoveMember{ID: "b"})
	r.refused(Refused, Header{}, membership.RemoveMember{ID: "a"})
}

func TestRemovingAMemberMayNotStrandTheRest(t *testing.T) {
	r := newRig(t)
	r.session("a")
	r.session("b")
	r.must(membership.PutMember{Member: member("c")})
	r.must(membership.PutMember{Member: member("d")})
	// Without a: b, c, d remain, of which only b lives.
	res := r.refused(Refused, Header{}, membership.RemoveMember{ID: "a"})
	if !strings.Contains(res.Message, "3 members remain, of which 1 live") {
		t.Errorf("refusal %q lacks the arithmetic", res.Message)
	}
	r.must(membership.RemoveMember{ID: "d"}) // of a, b, c two live
	r.must(membership.RemoveMember{ID: "a", Force: true})
}

func TestJoiningTakesThePlaceOfADeadNamesake(t *testing.T) {
	r := newRig(t)
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: member("b")})
	again := member("b2")
	again.Address = member("b").Address
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: again})
	if _, ok := r.view().Member("b"); ok {
		t.Error("the wiped host is still a member")
	}
	r.session("b2")
	third := member("b3")
	third.Name = again.Name
	r.refused(Conflict, Header{}, membership.UseJoinToken{Hash: [32]byte{1}, Member: third})

	// A joiner that is too old is refused, and the one whose place it would
	// have taken stays.
	newer := member("c")
	newer.Version = Version + 1
	r.must(membership.RemoveMember{ID: "a", Force: true})
	r.must(membership.OpenSession{Peer: "b2", Boot: "x", Version: Version + 1})
	r.must(membership.PutMember{Member: newer})
	old := member("c2")
	old.Name = newer.Name
	r.refused(Refused, Header{}, membership.UseJoinToken{Hash: [32]byte{1}, Member: old})
	if _, ok := r.view().Member("c"); !ok {
		t.Error("a refused join removed a member")
	}
}

func TestMembersAreBounded(t *testing.T) {
	r := newRig(t)
	for i := 1; i < membership.MaxMembers; i++ {
		r.must(membership.PutMember{Member: member("m" + Time(i).String())})
	}
	r.refused(Refused, Header{}, membership.PutMember{Member: member("more")})
	moved := member("a")
	moved.Address = "198.51.100.1:7350"
	r.must(membership.PutMember{Member: moved})
	if m, _ := r.view().Member("a"); m.Address != moved.Address || m.JoinedWall != 1_700_000_000_000 {
		t.Errorf("member is %+v", m)
	}
}

func TestJoinTokenAdmitsUntilItExpiresOrIsRevoked(t *testing.T) {
	r := newRig(t)
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: member("b")})
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: member("b")})
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: member("c")})
	r.refused(Expired, Header{}, membership.UseJoinToken{Hash: [32]byte{2}, Member: member("d")})
	r.refused(Conflict, Header{}, membership.AddJoinToken{ID: "first", Hash: [32]byte{3}, TTL: time.Hour})
	r.pass(time.Hour - 1)
	r.must(membership.UseJoinToken{Hash: [32]byte{1}, Member: member("d")})
	r.pass(1)
	r.refused(Expired, Header{}, membership.UseJoinToken{Hash: [32]byte{1}, Member: member("e")})
	if n := len(r.view().JoinTokens()); n != 0 {
		t.Errorf("%d join tokens are listed", n)
	}
	r.must(membership.AddJoinToken{ID: "second", Hash: [32]byte{4}, TTL: time.Hour})
	r.must(membership.RevokeJoinToken{ID: "second"})
	r.refused(Expired, Header{}, membership.UseJoinToken{Hash: [32]byte{4}, Member: member("e")})
	r.refused(NotFound, Header{}, membership.RevokeJoinToken{ID: "second"})
	for i := range membership.MaxJoinTokens {
		r.must(membership.AddJoinToken{ID: Time(i).String(), Hash: [32]byte{9, byte(i)}, TTL: time.Hour})
	}
	r.refused(Refused, Header{}, membership.AddJoinToken{ID: "more", Hash: [32]byte{5}, TTL: time.Hour})
}

func TestSettings(t *testing.T) {
	r := newRig(t)
	var written settings.Setting
	if err := r.must(settings.PutSetting{Key: "a.b-c_1", Value: "x"}).Decode(&written); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.view().Setting("a.b-c_1"); !ok || got != written || written.Index != r.index {
		t.Errorf("setting %+v, result %+v", got, written)
	}
	r.must(settings.DeleteSetting{Key: "a.b-c_1"})
	r.refused(NotFound, Header{}, settings.DeleteSetting{Key: "a.b-c_1"})
	for i := range settings.MaxSettings {
		r.must(settings.PutSetting{Key: Time(i).String()})
	}
	r.refused(Refused, Header{}, settings.PutSetting{Key: "one-more"})
	r.must(settings.PutSetting{Key: Time(1).String(), Value: "changed"})
}

func TestClusterTimeNeverGoesBack(t *testing.T) {
	r := newRig(t)
	id := r.session("a")
	r.now = Time(5 * time.Second)
	r.must(Probe{})
	r.now = Time(time.Second) // a leader whose state was behind cannot be, yet
	r.must(membership.RenewSession{Session: id})
	if got := r.view().Now(); got != Time(5*time.Second) {
		t.Errorf("cluster time went to %v", got)
	}
	if s, _ := r.view().Session(id); s.Expires != Time(5*time.Second).Add(membership.SessionTTL) {
		t.Errorf("the session ends at %v", s.Expires)
	}
}

func TestFoundOnce(t *testing.T) {
	r := newRig(t)
	v := r.view()
	if v.Index() != 1 || v.Base() != 0 || v.Incarnation() != 1 || v.ClusterID() != founding().ClusterID ||
		len(v.Members()) != 1 || len(v.JoinTokens()) != 1 || string(v.Secrets().CAKey) != string(founding().CAKey) {
		t.Errorf("founded: index %d, base %d, incarnation %d", v.Index(), v.Base(), v.Incarnation())
	}
	r.refused(Conflict, Header{}, founding())
}
