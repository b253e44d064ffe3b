// Package leases holds what the cluster lends to other programs, and what these keep and
// form under it: leases, values, and groups of those who hold a lease.
//
// The commands: [Grant], [Renew], [Release], [Delete] and [Steps] of leases, [PutValue] and
// [DeleteValue], [JoinGroup] and [LeaveGroup].
package leases

import (
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Domain is all that the log, snapshots, Check and deadlines know of leases, values
// and groups.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Grant](50, "grant lease"),
		entry.NewVerb[Txn, Renew](51, "renew lease"),
		entry.NewVerb[Txn, Release](52, "release lease"),
		entry.NewVerb[Txn, Delete](53, "delete lease"),
		entry.NewVerb[Txn, Steps](120, "step leases").From(2),
		entry.NewVerb[Txn, PutValue](121, "put value").From(2),
		entry.NewVerb[Txn, DeleteValue](122, "delete value").From(2),
		entry.NewVerb[Txn, JoinGroup](123, "join group").From(2),
		entry.NewVerb[Txn, LeaveGroup](124, "leave group").From(2),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('e', "leases", func(t Txn) table.Of[Lease] { return t.leases }, loadLease),
		entry.ManyShown('V', "values", func(t Txn) table.Of[Value] { return t.values.byKey },
			func(t Txn, v Value) { t.values.put(v) }, Value.shown),
		entry.Many('g', "groups", func(t Txn) table.Of[GroupMember] { return t.groups.members },
			func(t Txn, m GroupMember) { t.groups.put(m) }),
	},
	Checks: entry.Checks[Txn]{checkLeases, checkValues, checkGroups},
	Ends: []entry.Ending[Txn]{
		entry.Expiring(dueLease, func(t Txn) table.Of[Lease] { return t.leases },
			func(l Lease) (entry.Time, bool) { return l.Expires, l.Holder != "" },
			func(t Txn, id []byte) {
				if l, ok := t.leases.Get(id); ok {
					t.recordLease(eventring.ActionExpired, l)
					t.freeLease(l)
				}
			}),
	},
}

// dueLease is the class of the deadlines that end a lease.
const dueLease entry.Class = 'l'

// Tables are what the cluster lends, and what holders keep and form under it.
type Tables struct {
	leases table.Of[Lease] // by name
	values valueStore
	groups groups
}

// Txn is one entry at work on the tables of leases.
type Txn struct {
	*entry.Txn
	*Tables
}
