package fsm

import (
	"bytes"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func grant(t *testing.T, res Result) leases.Answer {
	t.Helper()
	var a leases.Answer
	if err := res.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLeaseIsHeldByOne(t *testing.T) {
	r := newRig(t)
	first := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: 10 * time.Second, Metadata: "m"}))
	if first.Token != fencing.Token(r.index) || first.Remaining != 10*time.Second {
		t.Errorf("granted %+v", first)
	}
	r.pass(4 * time.Second)
	inTheWay := grant(t, r.refused(Conflict, Header{}, leases.Grant{Name: "db", Holder: "two", TTL: time.Minute}))
	if inTheWay != (leases.Answer{Holder: "one", Token: first.Token, Remaining: 6 * time.Second}) {
		t.Errorf("conflict says %+v", inTheWay)
	}
	r.refused(Conflict, Header{}, leases.Grant{Name: "db", Holder: "two", TTL: time.Minute, Takeover: true})
	r.refused(Conflict, Header{}, leases.Grant{Name: "db", Holder: "one", TTL: time.Minute})
	taken := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: time.Minute, Takeover: true}))
	if taken.Token <= first.Token {
		t.Errorf("takeover got token %v after %v", taken.Token, first.Token)
	}
	r.refused(Conflict, Header{}, leases.Renew{Name: "db", Holder: "one", Token: first.Token})
	r.refused(Conflict, Header{}, leases.Release{Name: "db", Holder: "one", Token: first.Token})
	r.refused(Conflict, Header{}, leases.Delete{Name: "db"})
}

func TestLeaseExpiresInClusterTimeAndIsNeverRevived(t *testing.T) {
	r := newRig(t)
	token := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: 10 * time.Second})).Token
	for range 3 {
		r.pass(10*time.Second - 1)
		if a := grant(t, r.must(leases.Renew{Name: "db", Holder: "one", Token: token})); a.Token != token ||
			a.Remaining != 10*time.Second {
			t.Errorf("renewed to %+v", a)
		}
	}
	r.pass(10 * time.Second)
	r.refused(Expired, Header{}, leases.Renew{Name: "db", Holder: "one", Token: token})
	r.refused(Conflict, Header{}, leases.Renew{Name: "db", Holder: "one", Token: token + 1000})
	if l, ok := r.view().Lease("db"); !ok || l.Holder != "" || l.Token != token || l.Remaining(r.now) != 0 {
		t.Errorf("expired lease is %+v, %v", l, ok)
	}
	r.must(leases.Release{Name: "db", Holder: "one", Token: token}) // late, and harmless
	next := grant(t, r.must(leases.Grant{Name: "db", Holder: "two", TTL: time.Second})).Token
	if next <= token {
		t.Errorf("token %v follows %v", next, token)
	}
	r.refused(Conflict, Header{}, leases.Release{Name: "db", Holder: "one", Token: token})
	r.refused(NotFound, Header{}, leases.Renew{Name: "nobody", Holder: "one", Token: token})
	r.must(leases.Release{Name: "db", Holder: "two", Token: next})
	// as the first release has it: peers of it may apply the same entry
	r.refused(Expired, Header{}, leases.Release{Name: "db", Holder: "one", Token: token})
}

func TestReleasedLeaseKeepsItsToken(t *testing.T) {
	r := newRig(t)
	token := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: time.Minute})).Token
	r.must(leases.Release{Name: "db", Holder: "one", Token: token})
	r.must(leases.Release{Name: "db", Holder: "one", Token: token})
	r.refused(Expired, Header{}, leases.Renew{Name: "db", Holder: "one", Token: token})
	r.must(leases.Delete{Name: "db"})
	r.refused(NotFound, Header{}, leases.Delete{Name: "db"})
	again := grant(t, r.must(leases.Grant{Name: "db", Holder: "one", TTL: time.Minute})).Token
	if again <= token {
		t.Errorf("token %v follows %v over a deletion", again, token)
	}
}

func TestSameClientRequestIsTheSameGrant(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	c := leases.Grant{Name: "db", Holder: "one", TTL: time.Hour}
	first := r.mustAs(Header{Session: s, Request: r.request(), Client: "lease/db/one/1"}, c)
	// Later than the request table remembers, the lease itself does.
	for range 200 {
		r.pass(4 * time.Second)
		r.must(membership.RenewSession{Session: s})
	}
	again := r.mustAs(Header{Session: s, Request: r.request(), Client: "lease/db/one/1"}, c)
	if a, b := grant(t, first), grant(t, again); a.Token != b.Token || again.Token != first.Token ||
		b.Remaining >= a.Remaining {
		t.Errorf("first %+v, then %+v", a, b)
	}
	if res := r.do(Header{Session: s, Request: r.request(), Client: "lease/db/one/2"}, c); res.Code != Conflict {
		t.Errorf("another request of the holder: %v", res.Code)
	}
}

// TestTokensOfAnotherClusterAreNotGrantedAgain: docs/contract.md#lease-tokens. A snapshot goes
// into a new cluster whose log is short. Also a lease whose record was removed before
// gets a greater token there than any that the snapshot's cluster granted.
func TestTokensOfAnotherClusterAreNotGrantedAgain(t *testing.T) {
	old := newRig(t)
	old.index += 5000
	kept := old.must(leases.Grant{Name: "kept", Holder: "one", TTL: time.Hour}).Token
	gone := old.must(leases.Grant{Name: "gone", Holder: "one", TTL: time.Hour}).Token
	old.must(put("k", "v", leases.Condition{Lease: "kept", Token: kept}))
	old.must(leases.Release{Name: "gone", Holder: "one", Token: gone})
	old.must(leases.Delete{Name: "gone"})

	young := newRig(t)
	restored, err := Read(bytes.NewReader(snapshot(t, old.view())))
	if err != nil {
		t.Fatal(err)
	}
	restored.Adopt(young.view())
	if err := restored.Refound(
		Refound{Index: restored.View().Index(), NewIncarnation: true, Survivor: "young", Self: member("young")}); err != nil {
		t.Fatal(err)
	}
	young.state = restored
	young.index, young.now = restored.View().Index(), restored.View().Now()
	young.pass(time.Hour) // its holder of before may act for so long
	for _, name := range []string{"gone", "kept", "new"} {
		if next := young.must(leases.Grant{Name: name, Holder: "two", TTL: time.Hour}).Token; next <= gone {
			t.Errorf("%s has token %v, %v was granted before", name, next, gone)
		}
	}
	young.refused(Conflict, Header{}, leases.Renew{Name: "kept", Holder: "one", Token: kept})
	young.refused(Fenced, Header{}, put("k", "w", leases.Condition{Lease: "kept", Token: kept}))
}

// TestLeasesAreCounted: free leases count, and are not held.
func TestLeasesAreCounted(t *testing.T) {
	r := newRig(t)
	free := r.must(leases.Grant{Name: "free", Holder: "one", TTL: time.Minute})
	r.must(leases.Release{Name: "free", Holder: "one", Token: free.Token})
	held := r.must(leases.Grant{Name: "held", Holder: "one", TTL: time.Minute})
	r.must(leases.JoinGroup{Component: "web", ID: "a", Lease: "held", Token: held.Token})
	r.must(leases.PutValue{Key: "k", Data: []byte("xyz"), If: leases.Condition{Compare: true}})
	v := r.view()
	if v.LeaseCount() != 2 || v.LeasesHeld() != 1 || v.GroupMemberCount() != 1 || v.ValueCount() != 1 ||
		v.ValueBytes() != 3 {
		t.Errorf("%d leases, %d held, %d members, %d values, %d bytes", v.LeaseCount(), v.LeasesHeld(), v.GroupMemberCount(),
			v.ValueCount(), v.ValueBytes())
	}
}
