package ironicports

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	const node, other = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", "52:54:00:00:00:08"
	tables := Tables{}
	base := domaintest.NewTxn()
	base.Position.Floor, base.Header.Token = base.Granted(), base.Granted()
	at := func(base *entry.Txn, tables *Tables) Txn {
		return Txn{Txn: base, Tables: tables, Moved: func(string, uint64) {}}
	}
	first := Port{ID: "p1", MAC: "52:54:00:00:00:01", Node: node}
	put := PutPorts{Ports: []Port{first, {ID: "p2", MAC: "52:54:00:00:00:02", Node: node}}, Complete: true}
	domaintest.Commit(t, Domain, base, at(base, &tables), put)
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"port under another key":        func(t Txn) { t.byID.Put([]byte("x"), recorded{Port: first}) },
		"port against the rules":        func(t Txn) { t.store(recorded{Port: Port{ID: "x", MAC: other}}, 0) },
		"port of an entry to come":      func(t Txn) { t.store(recorded{first, t.Granted() + 1}, 0) },
		"port missing of the blacklist": func(t Txn) { t.denied.Remove(first.MAC, first.ID, 0) },
		"port missing of its node":      func(t Txn) { t.byNode.Drop(first.nodeKey()) },
		"port of no node":               func(t Txn) { t.byNode.Put([]byte(node+"ghost"), table.None{}) },
		"denied for no node":            func(t Txn) { t.denied.Add(other, "ghost", 0) },
		"pull under no token":           func(t Txn) { t.pull.Token = 0 },
		"pull of a leadership to come":  func(t Txn) { t.pull.Token = t.Position.Floor + 1 },
		"pull of the future":            func(t Txn) { t.pull.At = t.Now() + 1 },
		"pull of more than fits":        func(t Txn) { t.pull.Ports = MaxPorts + 1 },
	})
}
