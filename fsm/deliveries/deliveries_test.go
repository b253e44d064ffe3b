package deliveries

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	good := Progress{Receiver: "cmdb", Taken: eventring.ID{Index: 3}, Until: eventring.ID{Index: 5}}
	domaintest.Commit(t, Domain, base, at(base, &tables), Note{Receivers: []Progress{good}})
	put := func(key string, change func(*Progress)) func(Txn) {
		return func(t Txn) {
			p := good
			change(&p)
			t.progress.Put([]byte(key), p)
		}
	}
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"progress under another name": put("other", func(*Progress) {}),
		"progress to come":            put("cmdb", func(p *Progress) { p.Taken.Index, p.Until = 1<<40, eventring.ID{} }),
		"delivery to come":            put("cmdb", func(p *Progress) { p.Until.Index = 1 << 40 }),
		"delivery of what was taken":  put("cmdb", func(p *Progress) { p.Until.Index = 3 }),
		"name that is none":           put("A B", func(p *Progress) { p.Receiver = "A B" }),
	})
}
