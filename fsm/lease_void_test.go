package fsm

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// leased is a cluster that was founded again while alice held a lease for an hour.
func leased(t *testing.T) (r *rig, old leases.Lease) {
	t.Helper()
	r = newRig(t)
	r.must(leases.Grant{Name: "free", Holder: "carol", TTL: time.Second})
	r.mustAs(Header{Session: r.session("a"), Request: r.request(), Client: "request"},
		leases.Grant{Name: "db", Holder: "alice", TTL: time.Hour})
	r.pass(time.Minute)
	r.must(settings.PutSetting{Key: "k"})
	old, _ = r.view().Lease("db")
	r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a"})
	return r, old
}

// Nothing tells the holder of a lease that the cluster was founded again: it acts
// until its end, and no other holder gets the lease before. Under its token nothing
// is allowed.
func TestFoundingLeavesNoTwoHolders(t *testing.T) {
	r, old := leased(t)
	if _, ok := r.view().Lease("free"); ok {
		t.Error("the record of a free lease is kept")
	}
	if res := r.do(Header{}, leases.Grant{Name: "db", Holder: "bob", TTL: time.Minute}); res.Code != Conflict {
		t.Fatalf("two-holders: granted to another at once: %+v", res)
	}
	r.refused(Expired, Header{}, leases.Renew{Name: "db", Holder: "alice", Token: old.Token})
	r.refused(Fenced, Header{}, leases.PutValue{Key: "k", If: leases.Condition{Lease: "db", Token: old.Token}})
	r.refused(Fenced, Header{}, leases.JoinGroup{Component: "c", ID: "x", Lease: "db", Token: old.Token})
	r.refused(Conflict, Header{Session: r.session("a"), Request: r.request(), Client: "request"},
		leases.Grant{Name: "db", Holder: "alice", TTL: time.Hour})
	r.pass(59*time.Minute - 1)
	if res := r.do(Header{}, leases.Grant{Name: "db", Holder: "bob", TTL: time.Minute}); res.Code != Conflict {
		t.Errorf("two-holders: granted to another before its old end: %+v", res)
	}
	r.pass(1)
	if token := r.must(leases.Grant{Name: "db", Holder: "bob", TTL: time.Minute}).Token; token <= old.Token {
		t.Errorf("token %v after %v", token, old.Token)
	}
	r.must(leases.PutValue{Key: "k", If: leases.Condition{Lease: "db", Token: r.view().Leases()[0].Token}})
}

// Its holder need not wait: it may take the lease over, or say that it has ended.
func TestHolderEndsItsVoidLease(t *testing.T) {
	for name, release := range map[string]func(leases.Lease) Command{
		"release": func(l leases.Lease) Command { return leases.Release{Name: l.Name, Holder: l.Holder, Token: l.Token} },
		"step": func(l leases.Lease) Command {
			return leases.Steps{Steps: []leases.Step{{Name: l.Name, Holder: l.Holder, Token: l.Token, Release: true}}}
		},
		"takeover": nil,
	} {
		r, old := leased(t)
		if release == nil {
			token := r.must(leases.Grant{Name: "db", Holder: "alice", TTL: time.Minute, Takeover: true}).Token
			r.must(leases.Renew{Name: "db", Holder: "alice", Token: token})
			continue
		}
		other := old
		other.Holder = "bob"
		r.do(Header{}, release(other))
		other = old
		other.Token--
		r.do(Header{}, release(other))
		if l, _ := r.view().Lease("db"); !l.Void {
			t.Errorf("two-holders: %s by another ended it", name)
		}
		r.must(release(old))
		r.must(leases.Grant{Name: "db", Holder: "bob", TTL: time.Minute})
	}
}

// A restore keeps from others what the backup, or the log of this host, knows to be
// held; of what both know the later end.
func TestRestoreLeavesNoTwoHolders(t *testing.T) {
	file, local := newRig(t), newRig(t)
	for _, of := range []struct {
		r    *rig
		name string
		ttl  time.Duration
	}{
		{file, "both", time.Hour}, {file, "file", time.Hour}, {file, "over", time.Minute},
		{local, "both", 3 * time.Hour}, {local, "local", 2 * time.Hour},
	} {
		of.r.must(leases.Grant{Name: of.name, Holder: "alice", TTL: of.ttl})
	}
	local.pass(10 * time.Minute)
	local.must(settings.PutSetting{Key: "k"})
	file.state.Adopt(local.view())
	file.index = max(file.index, local.index)
	file.now = local.now
	file.refound(Refound{Index: file.index, NewIncarnation: true, Survivor: "a"})
	file.must(leases.Grant{Name: "over", Holder: "bob", TTL: time.Minute})
	for _, name := range []string{"both", "file", "local"} {
		if res := file.do(Header{}, leases.Grant{Name: name, Holder: "bob", TTL: time.Minute}); res.Code != Conflict {
			t.Errorf("two-holders: %s: %+v", name, res)
		}
	}
	file.pass(time.Hour)
	file.must(leases.Grant{Name: "file", Holder: "bob", TTL: time.Minute})
	if res := file.do(Header{}, leases.Grant{Name: "both", Holder: "bob", TTL: time.Minute}); res.Code != Conflict {
		t.Errorf("two-holders: both, at the end that the backup knows: %+v", res)
	}
}
