// Package introspection holds the nodes that are introspected, what is to be done to each,
// and which peer does it.
//
// The commands: [Start], [Enqueue], [DeleteNode] and [ImportRecord] of nodes; [ClaimRequests],
// [TakeCallback], [Advance], [Mark], [Consume], [Release], [Decline] and [TakeTurn] of workers;
// [PutInspected] and [KeepInspected] of nodes that Ironic itself inspects; [NoteLogs] of ramdisks' logs.
package introspection

import (
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of introspection.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Start](60, "start introspection"),
		entry.NewVerb[Txn, Enqueue](61, "enqueue"),
		entry.NewVerb[Txn, ClaimRequests](62, "claim requests"),
		entry.NewVerb[Txn, Advance](63, "advance"),
		entry.NewVerb[Txn, Mark](64, "mark"),
		entry.NewVerb[Txn, Consume](65, "consume"),
		entry.NewVerb[Txn, Release](66, "release"),
		entry.NewVerb[Txn, DeleteNode](67, "delete node"),
		entry.NewVerb[Txn, TakeTurn](68, "take turn"),
		entry.NewVerb[Txn, TakeCallback](69, "take callback").From(2),
		entry.NewVerb[Txn, Decline](75, "decline").From(2),
		entry.NewVerb[Txn, ImportRecord](76, "import record").From(2),
		entry.NewVerb[Txn, PutInspected](77, "put inspected").ByLeader().From(2),
		entry.NewVerb[Txn, NoteLogs](78, "note ramdisk logs").From(3),
		entry.NewVerb[Txn, KeepInspected](79, "keep inspected").ByLeader().From(3),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('n', "nodes", func(t Txn) table.Of[Record] { return t.nodes.records }, loadRecord),
		entry.Many('q', "queue", func(t Txn) table.Of[QueuedRequest] { return t.queue.requests }, loadRequest),
		entry.Many('c', "claims", func(t Txn) table.Of[Claim] { return t.queue.claims },
			func(t Txn, c Claim) { t.queue.putClaim(c) }),
		entry.Single('T', "throttle", func(t Txn) *throttle { return &t.throttle }).Shown(func(t Txn) any {
			return map[string]string{"next_turn": t.throttle.Next.String()}
		}),
		entry.Many('y', "inspected", func(t Txn) table.Of[Inspected] { return t.nodes.inspected },
			func(t Txn, i Inspected) { t.nodes.inspect(i, true, 0) }),
		keptSection(),
	},
	Ends: []entry.Ending[Txn]{
		{Class: dueInspected, End: func(t Txn, _ []byte) { forgetInspected(t) },
			Due: func(t Txn, expect entry.Expectation) {
				if !t.kept.IsZero() {
					expect(t.kept.Until, nil)
				}
			}},
	},
	Checks: entry.Checks[Txn]{
		checkNodes, checkQueue, checkDiscovered, checkWhitelist,
		func(t Txn, p *valid.Problems) {
			p.Want(t.throttle.Next >= 0, "the next turn is at %v", t.throttle.Next)
		},
	},
}

// Tables are the nodes and the work on them.
type Tables struct {
	nodes    nodes
	queue    queue
	throttle throttle
	kept     kept
}

// Txn is one entry at work on the tables of introspection, and on the documents that
// these refer to.
type Txn struct {
	*entry.Txn
	*Tables
	Blobs *blobs.Store
	Ports Ports
	// Stopped says what was found to keep a node's machine from coming up, in an introspection;
	// nil: nothing is.
	Stopped func(node string, begun fencing.Token) entry.Finding
}
