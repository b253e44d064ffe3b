package settings

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	domaintest.Commit(t, Domain, base, at(base, &tables), PutSetting{Key: "k"})
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"setting under another key": func(t Txn) { t.settings.Put([]byte("x"), Setting{Key: "k"}) },
		"setting from the future":   func(t Txn) { t.settings.Put([]byte("k"), Setting{Key: "k", Index: 1 << 40}) },
	})
}
