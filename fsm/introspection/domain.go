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
		entry.NewVerb(60, "start introspection", applyStart),
		entry.NewVerb(61, "enqueue", applyEnqueue),
		entry.NewVerb(62, "claim requests", applyClaimRequests),
		entry.NewVerb(63, "advance", applyAdvance),
		entry.NewVerb(64, "mark", applyMark),
		entry.NewVerb(65, "consume", applyConsume),
		entry.NewVerb(66, "release", applyRelease),
		entry.NewVerb(67, "delete node", applyDeleteNode),
		entry.NewVerb(68, "take turn", applyTakeTurn),
		entry.NewVerb(69, "take callback", applyTakeCallback).From(2),
		entry.NewVerb(75, "decline", applyDecline).From(2),
		entry.NewVerb(76, "import record", applyImportRecord).From(2),
		entry.NewVerb(77, "put inspected", applyPutInspected).ByLeader().From(2),
		entry.NewVerb(78, "note ramdisk logs", applyNoteLogs).From(3),
		entry.NewVerb(79, "keep inspected", applyKeepInspected).ByLeader().From(3),
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
	Check: func(t Txn, p *valid.Problems) {
		checkNodes(t, p)
		checkQueue(t, p)
		checkDiscovered(t, p)
		checkWhitelist(t, p)
		p.Want(t.throttle.Next >= 0, "the next turn is at %v", t.throttle.Next)
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
