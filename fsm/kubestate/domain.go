// Package kubestate holds what the log knows of Kubernetes clusters: their nodes as a leader
// saw them last, what peers say of each, and what is done about those that are down.
//
// The commands: [PutNodes] and [VoteNodes], [BeginRemediation], [StepRemediation] and
// [ReleaseRemediation], [PauseFailover] and [HoldFailover].
package kubestate

import (
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Domain is all that the log, snapshots, Check and deadlines know of kube nodes.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, PutNodes](100, "put kube nodes").ByLeader().From(2),
		entry.NewVerb[Txn, VoteNodes](101, "vote on kube nodes").From(2),
		entry.NewVerb[Txn, BeginRemediation](102, "begin remediation").ByLeader().From(2),
		entry.NewVerb[Txn, StepRemediation](103, "step remediation").ByLeader().From(2),
		entry.NewVerb[Txn, PauseFailover](104, "pause failover").From(2),
		entry.NewVerb[Txn, ReleaseRemediation](105, "release remediation").From(2),
		entry.NewVerb[Txn, HoldFailover](106, "hold failover").ByLeader().From(2),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('K', "kube nodes", func(t Txn) table.Of[Node] { return t.nodes },
			func(t Txn, n Node) { t.nodes.Put(kubeKey(n.Cluster, n.UID), n) }),
		entry.Many('v', "votes", func(t Txn) table.Of[Ballot] { return t.votes }, Txn.putBallot),
		entry.Many('R', "remediations", func(t Txn) table.Of[Remediation] { return t.remediations }, Txn.putRemediation),
		entry.Many('p', "pauses", func(t Txn) table.Of[Pause] { return t.pauses }, Txn.putPause),
		entry.Many('h', "holds", func(t Txn) table.Of[Hold] { return t.holds }, Txn.putHold),
	},
	Checks: entry.Checks[Txn]{checkKubeNodes, checkBallots, checkRemediations, checkPauses},
	Ends: []entry.Ending[Txn]{
		entry.Expiring(dueRemediation, func(t Txn) table.Of[Remediation] { return t.remediations },
			func(r Remediation) (entry.Time, bool) { return r.Expires, r.State.Ended() },
			func(t Txn, id []byte) { t.expireRemediation(table.TailToken(id)) }),
		entry.Expiring(duePause, func(t Txn) table.Of[Pause] { return t.pauses },
			func(f Pause) (entry.Time, bool) { return f.Until, f.Until != 0 }, func(t Txn, id []byte) { t.pauses.Drop(id) }),
		entry.Expiring(dueHold, func(t Txn) table.Of[Hold] { return t.holds },
			func(h Hold) (entry.Time, bool) { return h.Until, true }, func(t Txn, id []byte) { t.holds.Drop(id) }),
	},
}

// Classes of deadlines: what ends the time that a remediation is kept, a pause, and a hold.
const (
	dueRemediation entry.Class = 'm'
	duePause       entry.Class = 'p'
	dueHold        entry.Class = 'h'
)

// Tables hold what the log knows of the clusters whose kube nodes are watched.
type Tables struct {
	nodes        table.Of[Node]          // cluster, UID
	votes        table.Of[Ballot]        // cluster, UID, session
	votesOf      table.Of[table.None]    // session, cluster, UID
	remediations table.Of[Remediation]   // intent
	open         table.Of[fencing.Token] // cluster, UID: the intent of the one that is open
	openName     table.Of[fencing.Token] // cluster, name: the same
	ended        table.Of[table.None]    // end of retention, intent
	pauses       table.Of[Pause]         // cluster; "" is all
	holds        table.Of[Hold]          // cluster
}

// Txn is one entry at work on the tables of kube nodes.
type Txn struct {
	*entry.Txn
	*Tables
}
