package relays

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables, store := Tables{}, blobs.Store{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables, Blobs: &store} }
	all := at(base, &tables)
	const node = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10"
	for i, tried := range []Outcome{OutcomeTaken, 0} {
		document, err := blobs.Pack([]byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		domaintest.Commit(t, Domain, base, all, Accept{Node: node, Document: document, Timeout: time.Minute, Tried: tried})
	}
	domaintest.FindContradictions(t, Domain, base, tables, at, corruptRelays(all))
}

// corruptRelays are the contradictions of relays.
func corruptRelays(all Txn) map[string]func(Txn) {
	var taken, pending Relay
	for r := range all.Relays() {
		if r.State == Pending {
			pending = r
		} else {
			taken = r
		}
	}
	change := func(r Relay, f func(*Relay)) func(Txn) {
		return func(s Txn) {
			f(&r)
			s.bySequence.Put(table.TokenKey(r.Sequence), r)
		}
	}
	return map[string]func(Txn){
		"relay under another key":       func(s Txn) { s.bySequence.Put(table.TokenKey(2), pending) },
		"relay missing of its document": func(s Txn) { s.byDocument.Drop(pending.documentKey()) },
		"relay missing of its node":     func(s Txn) { s.byNode.Drop(table.NameKey(pending.Node, pending.Sequence)) },
		"pending relay not pending":     func(s Txn) { s.pending.Drop(table.TokenKey(pending.Sequence)) },
		"ended relay not ended":         func(s Txn) { s.ended.Drop(taken.shares()[0].member(taken.Sequence)) },
		"ended relay in a foreign share": func(s Txn) {
			s.ended.Put(relayShare{key: "unknown\x00"}.member(taken.Sequence), table.None{})
		},
		"ended relay kept for ever":        func(s Txn) { s.Disarm(taken.Expires, dueRelay, table.TokenKey(taken.Sequence)) },
		"bytes of relays counted wrong":    func(s Txn) { s.used.Put([]byte("all"), relayUse{}) },
		"share of no relay":                func(s Txn) { s.used.Put([]byte("unknown\x00"), relayUse{all: relaySum{1, 1}}) },
		"relay in no state":                change(pending, func(r *Relay) { r.State = 0 }),
		"relay of no node's name":          change(pending, func(r *Relay) { r.Node = "x" }),
		"pending relay that ended":         change(pending, func(r *Relay) { r.EndedMillis = 1 }),
		"relay accepted in the future":     change(pending, func(r *Relay) { r.Accepted = 1 << 60 }),
		"ended relay with an open attempt": change(taken, func(r *Relay) { r.Open = true }),
		"failed relay without a reason":    change(taken, func(r *Relay) { r.State, r.Reason = Failed, "" }),
		"relay that never ended":           change(taken, func(r *Relay) { r.EndedMillis = 0 }),
	}
}
