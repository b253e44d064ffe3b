package ruleset

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	const one, other = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a11"
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	all := at(base, &tables)
	domaintest.Commit(t, Domain, base, all, Create{UUID: one, Body: []byte("{}")})
	first, _ := all.Rule(one)
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"rule under another key": func(s Txn) { s.inOrder.Put(table.TokenKey(2), first) },
		"rule from the future": func(s Txn) {
			s.put(Rule{UUID: other, Created: s.Granted() + 1, Body: []byte("{}")})
		},
		"rule missing of UUIDs":        func(s Txn) { s.byUUID.Drop([]byte(one)) },
		"UUID of another rule":         func(s Txn) { s.byUUID.Put([]byte(one), 2) },
		"UUID of no rule":              func(s Txn) { s.byUUID.Put([]byte(other), 2) },
		"rule without a body":          func(s Txn) { s.put(Rule{UUID: other, Created: 3}) },
		"bytes of rules counted wrong": func(s Txn) { s.bytes++ },
	})
}
