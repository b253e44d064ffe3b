package doors

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	var tables Tables
	base := domaintest.NewTxn()
	base.Position.Term = 2
	base.Lead = entry.Leadership{Token: base.Granted(), Peer: domaintest.Peer, Term: 2, Index: base.Position.Index}
	base.Position.Floor, base.Header.Token, base.Term = base.Lead.Token, base.Lead.Token, 2
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	domaintest.Commit(t, Domain, base, at(base, &tables), PassOpen{Wait: time.Second})
	domaintest.FindContradictions(t, Domain, base, tables, at, corruptDoors())
}

func corruptDoors() map[string]func(Txn) {
	all := map[string]func(Txn){
		"pass rule with an address": func(t Txn) { t.doors.Pass.Address = "192.0.2.1" },
		"address of no peer":        func(t Txn) { t.doors.Address.Address = "192.0.2.1" },
		"no address":                func(t Txn) { t.doors.Address = t.doors.Pass },
	}
	for name, corrupt := range map[string]func(d *Door, of Txn){
		"of a leadership to come":      func(d *Door, of Txn) { d.OpenBy = of.Position.Floor + 1 },
		"shut by a leadership to come": func(d *Door, of Txn) { d.ClosedBy = of.Position.Floor + 1 },
		"opened later":                 func(d *Door, of Txn) { d.Since = of.Now() + 1 },
		"with a wait below zero":       func(d *Door, _ Txn) { d.Wait = -1 },
		"with a long wait":             func(d *Door, _ Txn) { d.Wait = MaxWait + time.Second },
		"open and unknown":             func(d *Door, _ Txn) { d.Unknown = true },
		"open of no peer":              func(d *Door, _ Txn) { d.Peer = "" },
		"open and shut by the same":    func(d *Door, _ Txn) { d.ClosedBy = d.OpenBy },
		"shut of a peer":               func(d *Door, _ Txn) { *d = Door{Peer: "a"} },
		"shut with a wait":             func(d *Door, _ Txn) { *d = Door{Wait: 1} },
		"shut since":                   func(d *Door, _ Txn) { *d = Door{Since: 1} },
		"shut with a place":            func(d *Door, _ Txn) { *d = Door{Term: 1, Index: 1} },
		"of a term to come":            func(d *Door, of Txn) { d.Term = of.Position.Term + 1 },
		"of an index to come":          func(d *Door, of Txn) { d.Index = of.Position.Index + 1 },
		"of an index alone":            func(d *Door, _ Txn) { d.Term = 0 },
		"of a term alone":              func(d *Door, _ Txn) { d.Index = 0 },
		"recorded with its Lead":       func(d *Door, of Txn) { d.Index = of.Lead.Index },
	} {
		all["pass rule "+name] = func(t Txn) { corrupt(&t.doors.Pass, t) }
		all["floating IP "+name] = func(t Txn) {
			t.doors.Address = t.doors.Pass
			t.doors.Address.Address = "192.0.2.1"
			corrupt(&t.doors.Address, t)
			if t.doors.Address.OpenBy == 0 {
				t.doors.Address.Address = ""
			}
		}
	}
	return all
}
