package fsm

import (
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// Parts of the state whose domains are packages of their own. A View has the methods of each.
type (
	leaseTables = leases.Tables
	kubeTables  = kubestate.Tables
	zoneTables  = zones.Tables
	relayTables = relays.Tables
	ruleTables  = ruleset.Tables
	nodeTables  = introspection.Tables
	syncTables  = nodesync.Tables
)

// An entry at work on one of these parts.

func leasesOf(t *txn) leases.Txn { return leases.Txn{Txn: &t.Txn, Tables: &t.leaseTables} }

func kubeOf(t *txn) kubestate.Txn { return kubestate.Txn{Txn: &t.Txn, Tables: &t.kubeTables} }

func zonesOf(t *txn) zones.Txn { return zones.Txn{Txn: &t.Txn, Tables: &t.zoneTables} }

func syncOf(t *txn) nodesync.Txn { return nodesync.Txn{Txn: &t.Txn, Tables: &t.syncTables} }

func rulesOf(t *txn) ruleset.Txn { return ruleset.Txn{Txn: &t.Txn, Tables: &t.ruleTables} }

func nodesOf(t *txn) introspection.Txn {
	return introspection.Txn{Txn: &t.Txn, Tables: &t.nodeTables, Blobs: &t.blobs}
}

func relaysOf(t *txn) relays.Txn {
	return relays.Txn{Txn: &t.Txn, Tables: &t.relayTables, Blobs: &t.blobs}
}
