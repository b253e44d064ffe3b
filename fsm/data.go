package fsm

import (
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// data is one version of everything. A published data never changes: Apply
// works on a copy, whose tables share what did not change.
type data struct {
	shared   entry.State
	requests requests
	blobs    blobs.Store
	memberTables
	operatorTables
	settingTables
	leaseTables
	machineTables
	filterTables
	kubeTables
	zoneTables
	relayTables
	ruleTables
	leaderTables
}

// filterTables are what the PXE filter and its recorder know.
type filterTables struct {
	portTables
	doorTables
	bootTables
}

// Parts of the state whose domains are packages of their own. A View has the methods of each.
type (
	memberTables      = membership.Tables
	operatorTables    = operators.Tables
	settingTables     = settings.Tables
	leaseTables       = leases.Tables
	kubeTables        = kubestate.Tables
	zoneTables        = zones.Tables
	relayTables       = relays.Tables
	ruleTables        = ruleset.Tables
	nodeTables        = introspection.Tables
	syncTables        = nodesync.Tables
	portTables        = ironicports.Tables
	doorTables        = doors.Tables
	expectationTables = expectations.Tables
	deliveryTables    = deliveries.Tables
	bootTables        = boots.Tables
)

// machineTables are what is known of machines.
type machineTables struct {
	nodeTables
	expectationTables
}

// leaderTables are what the leader alone notes, for the next one.
type leaderTables struct {
	syncTables
	deliveryTables
}

// txn is one entry at work on the copy it will become.
type txn struct {
	*data
	entry.Txn
}

// txn returns what works on the tables outside of an entry.
func (d *data) txn() *txn {
	return &txn{data: d, Txn: entry.Txn{State: &d.shared, Peers: &d.memberTables}}
}

// domain is one part of the state, such as leases. Its value stands at the head of the
// domain's package, or of its file here: a new command is named in the package's
// comment; a new table has a tag in sectionOrder.
type domain = entry.Domain[*txn]

// An entry at work on one of these parts.

func membersOf(t *txn) membership.Txn {
	return membership.Txn{
		Txn: &t.Txn, Tables: &t.memberTables, Nodes: nodesOf(t), Kube: kubeOf(t), Doors: doorsOf(t), Results: &t.requests,
	}
}

func operatorsOf(t *txn) operators.Txn { return operators.Txn{Txn: &t.Txn, Tables: &t.operatorTables} }

func settingsOf(t *txn) settings.Txn { return settings.Txn{Txn: &t.Txn, Tables: &t.settingTables} }

func portsOf(t *txn) ironicports.Txn {
	return ironicports.Txn{Txn: &t.Txn, Tables: &t.portTables, Moved: nodesOf(t).Allow}
}

func doorsOf(t *txn) doors.Txn { return doors.Txn{Txn: &t.Txn, Tables: &t.doorTables} }

func leasesOf(t *txn) leases.Txn { return leases.Txn{Txn: &t.Txn, Tables: &t.leaseTables} }

func kubeOf(t *txn) kubestate.Txn { return kubestate.Txn{Txn: &t.Txn, Tables: &t.kubeTables} }

func zonesOf(t *txn) zones.Txn { return zones.Txn{Txn: &t.Txn, Tables: &t.zoneTables} }

func deliveriesOf(t *txn) deliveries.Txn {
	return deliveries.Txn{Txn: &t.Txn, Tables: &t.deliveryTables}
}

func syncOf(t *txn) nodesync.Txn { return nodesync.Txn{Txn: &t.Txn, Tables: &t.syncTables} }

func bootsOf(t *txn) boots.Txn { return boots.Txn{Txn: &t.Txn, Tables: &t.bootTables} }

func rulesOf(t *txn) ruleset.Txn { return ruleset.Txn{Txn: &t.Txn, Tables: &t.ruleTables} }

func nodesOf(t *txn) introspection.Txn {
	return introspection.Txn{
		Txn: &t.Txn, Tables: &t.nodeTables, Blobs: &t.blobs, Ports: &t.portTables, Stopped: t.bootTables.FindingOf,
	}
}

func expectationsOf(t *txn) expectations.Txn {
	return expectations.Txn{Txn: &t.Txn, Tables: &t.expectationTables, Blobs: &t.blobs}
}

func relaysOf(t *txn) relays.Txn {
	return relays.Txn{Txn: &t.Txn, Tables: &t.relayTables, Blobs: &t.blobs}
}
