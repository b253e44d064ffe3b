package leases

import (
	"reflect"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// commit applies a command, which has to succeed, as the next entry.
func (t Txn) commit(tb testing.TB, c entry.Command) {
	tb.Helper()
	t.Position.Index++
	t.Txn.Token = t.Granted()
	for _, verb := range Domain.Verbs {
		if verb.Type == reflect.TypeOf(c) {
			if err := verb.Apply(t, c).Err(); err != nil {
				tb.Fatalf("%s: %v", verb.Name, err)
			}
		}
	}
}

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	state, tables := entry.NewState(), New()
	state.Version = 2
	all := Txn{Txn: &entry.Txn{State: &state}, Tables: &tables}
	all.commit(t, Grant{Name: "held", Holder: "h", TTL: time.Minute})
	lease, _ := all.Lease("held")
	all.commit(t, Grant{Name: "free", Holder: "h", TTL: time.Minute})
	all.commit(t, Release{Name: "free", Holder: "h", Token: all.Granted()})
	all.commit(t, PutValue{Key: "k", Data: []byte("v"), If: Condition{Lease: "held", Token: lease.Token}})
	all.commit(t, JoinGroup{Component: "web", ID: "i", Lease: "held", Token: lease.Token})
	value, _ := all.Value("k")
	instance := all.Group("web")[0]
	check := func(tables *Tables) error {
		p := &valid.Problems{}
		Domain.Check(Txn{Txn: all.Txn, Tables: tables}, p)
		return p.Err()
	}
	if err := check(&tables); err != nil {
		t.Fatal(err)
	}
	for name, corrupt := range map[string]func(*Tables){
		"lease of no entry":         func(d *Tables) { l := lease; l.Token = 1 << 60; d.leases.Put([]byte("held"), l) },
		"lease that lasts too long": func(d *Tables) { l := lease; l.TTL = time.Second; d.leases.Put([]byte("held"), l) },
		"value under another key":   func(d *Tables) { d.values.byKey.Put([]byte("x"), value) },
		"value of no entry":         func(d *Tables) { v := value; v.Version = 1 << 60; d.values.byKey.Put([]byte("k"), v) },
		"value of a token alone":    func(d *Tables) { v := value; v.Lease = ""; d.values.byKey.Put([]byte("k"), v) },
		"values counted wrong":      func(d *Tables) { d.values.bytes++ },
		"member of no lease":        func(d *Tables) { d.leases.Drop([]byte("held")) },
		"member by another grant":   func(d *Tables) { m := instance; m.Token++; d.groups.put(m) },
		"member under another key":  func(d *Tables) { d.groups.members.Put([]byte("x"), instance) },
		"member missing of lease":   func(d *Tables) { d.groups.byLease.Drop(pathKey("held", "web", "i")) },
		"free lease with a ttl":     func(d *Tables) { d.leases.Put([]byte("free"), Lease{Name: "free", Token: 3, TTL: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			bad := tables
			corrupt(&bad)
			if check(&bad) == nil {
				t.Error("not found")
			}
		})
	}
}
