package fsm

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// joined makes a member of component by a lease of its own name.
func (r *rig) joined(component, id string) fencing.Token {
	r.t.Helper()
	token := r.must(leases.Grant{Name: id, Holder: "host", TTL: 10 * time.Second}).Token
	r.must(leases.JoinGroup{Component: component, ID: id, Lease: id, Token: token})
	return token
}

func (r *rig) wantGroup(component string, ids ...string) {
	r.t.Helper()
	members := r.view().Group(component)
	if len(members) != len(ids) {
		r.t.Fatalf("%s has %v, want %v", component, members, ids)
	}
	for n, m := range members {
		if m.ID != ids[n] {
			r.t.Errorf("%s has %v, want %v", component, members, ids)
		}
	}
}

func TestGroupIsOfThoseWhoHoldTheirLeases(t *testing.T) {
	r := newRig(t)
	a, b := r.joined("web", "a"), r.joined("web", "b")
	r.joined("web-2", "c") // the name begins alike
	r.wantGroup("web", "a", "b")
	r.pass(6 * time.Second)
	r.must(leases.Renew{Name: "a", Holder: "host", Token: a})
	r.pass(5 * time.Second)
	r.must(Probe{})
	r.wantGroup("web", "a") // b's lease is over
	r.refused(Fenced, Header{}, leases.JoinGroup{Component: "web", ID: "b", Lease: "b", Token: b})
	taken := r.must(leases.Grant{Name: "a", Holder: "host", TTL: 10 * time.Second, Takeover: true}).Token
	r.wantGroup("web") // whoever took it over joins for itself
	r.must(leases.JoinGroup{Component: "web", ID: "a", Lease: "a", Token: taken})
	r.must(leases.JoinGroup{Component: "db", ID: "a", Lease: "a", Token: taken, Metadata: "m"})
	r.must(leases.Release{Name: "a", Holder: "host", Token: taken})
	r.wantGroup("web")
	r.wantGroup("db")
}

// TestGroupsThatHaveNotChanged are known to be the same, whatever else goes on, also in other
// groups, and others are not.
func TestGroupsThatHaveNotChanged(t *testing.T) {
	r := newRig(t)
	a := r.joined("web", "a")
	before := r.view()
	same := func(want bool, what string) {
		t.Helper()
		if r.view().SameGroup(before, "web") != want {
			t.Errorf("group-has-changed: %s: the group is the same: %v", what, !want)
		}
		before = r.view()
	}
	r.must(leases.Renew{Name: "a", Holder: "host", Token: a})
	b := r.must(leases.Grant{Name: "b", Holder: "host", TTL: time.Minute}).Token
	r.refused(Fenced, Header{}, leases.JoinGroup{Component: "web", ID: "b", Lease: "b", Token: a})
	same(true, "leases and a refusal")
	r.must(leases.JoinGroup{Component: "web2", ID: "b", Lease: "b", Token: b})
	r.must(leases.LeaveGroup{Component: "web2", ID: "b", Lease: "b", Token: b})
	same(true, "another group")
	r.must(leases.JoinGroup{Component: "web", ID: "a", Lease: "a", Token: a, Metadata: "new"})
	same(false, "another text of a member")
	r.must(leases.JoinGroup{Component: "web", ID: "b", Lease: "b", Token: b})
	same(false, "a second member")
	r.must(leases.LeaveGroup{Component: "web", ID: "b", Lease: "b", Token: b})
	same(false, "one that leaves")
	r.pass(11 * time.Second)
	r.must(Probe{})
	same(false, "the end of the last member's lease")
	a = r.joined("web", "a")
	same(false, "a first member")
	r.must(leases.Release{Name: "a", Holder: "host", Token: a})
	r.joined("web", "a")
	same(false, "a member that is back under another token")
}

func TestGroupIDBelongsToOneLease(t *testing.T) {
	r := newRig(t)
	a := r.joined("web", "a")
	b := r.must(leases.Grant{Name: "b", Holder: "host", TTL: time.Minute}).Token
	r.refused(Conflict, Header{}, leases.JoinGroup{Component: "web", ID: "a", Lease: "b", Token: b})
	r.must(leases.JoinGroup{Component: "web", ID: "a", Lease: "a", Token: a, Metadata: "new"})
	if m := r.view().Group("web")[0]; m.Metadata != "new" {
		t.Errorf("metadata is %q", m.Metadata)
	}
	r.refused(Conflict, Header{}, leases.LeaveGroup{Component: "web", ID: "a", Lease: "b", Token: b})
	r.refused(Conflict, Header{}, leases.LeaveGroup{Component: "web", ID: "a", Lease: "a", Token: a + 1000})
	r.must(leases.LeaveGroup{Component: "web", ID: "a", Lease: "a", Token: a})
	r.must(leases.LeaveGroup{Component: "web", ID: "a", Lease: "a", Token: a})
	r.must(leases.JoinGroup{Component: "web", ID: "a", Lease: "b", Token: b})
	r.pass(11 * time.Second)
	r.must(Probe{})
	r.wantGroup("web", "a") // the end of a's old lease is no business of b's
}

func TestManyLeasesStepInOneEntry(t *testing.T) {
	r := newRig(t)
	a := r.must(leases.Grant{Name: "a", Holder: "host", TTL: 10 * time.Second}).Token
	b := r.must(leases.Grant{Name: "b", Holder: "host", TTL: 5 * time.Second}).Token
	r.pass(5 * time.Second)
	res := r.must(leases.Steps{Steps: []leases.Step{
		{Name: "b", Holder: "host", Token: b}, {Name: "a", Holder: "host", Token: a},
		{Name: "a", Holder: "thief", Token: a}, {Name: "c", Holder: "host", Token: a},
		{Name: "a", Holder: "thief", Token: a, Release: true}, {Name: "a", Holder: "host", Token: a, Release: true},
		{Name: "a", Holder: "host", Token: a, Release: true}, {Name: "a", Holder: "host", Token: a},
	}})
	var got []leases.Stepped
	if err := res.Decode(&got); err != nil || len(got) != 8 {
		t.Fatalf("%v, %+v", err, got)
	}
	for n, want := range []Code{Expired, OK, Conflict, NotFound, Conflict, OK, OK, Expired} {
		if got[n].Code != want {
			t.Errorf("step %d: %+v, want %v", n, got[n], want)
		}
	}
	if l := got[1].Lease; l.Remaining != 10*time.Second || l.Token != a || got[1].Err() != nil {
		t.Errorf("renewed to %+v", l)
	}
	if l := got[0].Lease; l.Remaining != 0 || l.Holder != "" {
		t.Errorf("of one that is over: %+v", l)
	}
	if l := got[5].Lease; l.Remaining != 0 || l.Holder != "" || l.Token != a {
		t.Errorf("of one that was released: %+v", l)
	}
}

func TestRefoundEndsGroupsAndKeepsValues(t *testing.T) {
	r := newRig(t)
	token := r.joined("web", "a")
	v := stored(t, r.must(put("k", "x", leases.Condition{Lease: "a", Token: token})))
	if err := r.state.Refound(Refound{Index: r.index, UnixMillis: r.wall}); err != nil {
		t.Fatal(err)
	}
	if err := r.view().Check(); err != nil {
		t.Fatal(err)
	}
	r.wantGroup("web")
	if kept, ok := r.view().Value("k"); !ok || kept.Version != v.Version {
		t.Errorf("kept %+v, %v", kept, ok)
	}
	r.must(leases.Grant{Name: "a", Holder: "host", TTL: time.Minute, Takeover: true})
	r.refused(Fenced, Header{}, put("k", "y", leases.Condition{Lease: "a", Token: token}))
}
