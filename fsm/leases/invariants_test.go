package leases

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	all := at(base, &tables)
	commit := func(c entry.Command) {
		t.Helper()
		domaintest.Commit(t, Domain, base, all, c)
	}
	commit(Grant{Name: "held", Holder: "h", TTL: time.Minute})
	lease, _ := all.Lease("held")
	commit(Grant{Name: "free", Holder: "h", TTL: time.Minute})
	commit(Release{Name: "free", Holder: "h", Token: all.Granted()})
	commit(PutValue{Key: "k", Data: []byte("v"), If: Condition{Lease: "held", Token: lease.Token}})
	commit(JoinGroup{Component: "web", ID: "i", Lease: "held", Token: lease.Token})
	value, _ := all.Value("k")
	instance := all.Group("web")[0]
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"lease of no entry":         func(d Txn) { l := lease; l.Token = 1 << 60; d.leases.Put([]byte("held"), l) },
		"lease that lasts too long": func(d Txn) { l := lease; l.TTL = time.Second; d.leases.Put([]byte("held"), l) },
		"value under another key":   func(d Txn) { d.values.byKey.Put([]byte("x"), value) },
		"value of no entry":         func(d Txn) { v := value; v.Version = 1 << 60; d.values.byKey.Put([]byte("k"), v) },
		"value of a token alone":    func(d Txn) { v := value; v.Lease = ""; d.values.byKey.Put([]byte("k"), v) },
		"values counted wrong":      func(d Txn) { d.values.bytes++ },
		"member of no lease":        func(d Txn) { d.leases.Drop([]byte("held")) },
		"member by another grant":   func(d Txn) { m := instance; m.Token++; d.groups.put(m) },
		"member under another key":  func(d Txn) { d.groups.members.Put([]byte("x"), instance) },
		"member missing of lease":   func(d Txn) { d.groups.byLease.Drop(pathKey("held", "web", "i")) },
		"free lease with a ttl":     func(d Txn) { d.leases.Put([]byte("free"), Lease{Name: "free", Token: 3, TTL: 1}) },
	})
}
