package kubestate

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	all := at(base, &tables)
	commit := func(c entry.Command) fencing.Token {
		t.Helper()
		return domaintest.Commit(t, Domain, base, all, c)
	}
	commit(PutNodes{Cluster: "k",
		Nodes: []Node{{UID: "u1", Name: "w1", Ready: ReadyTrue}, {UID: "u2", Name: "w2", Ready: ReadyFalse}}})
	commit(VoteNodes{Session: domaintest.Session, Cluster: "k", Votes: []Vote{{UID: "u1", Silent: true}}})
	walk := func(uid, name string, to ...State) {
		intent := commit(BeginRemediation{Cluster: "k", Node: name, UID: uid, Reason: "dead"})
		from := RemIntent
		for _, next := range to {
			device := ""
			if next == RemFencing {
				device = "bmc"
			}
			commit(StepRemediation{Intent: intent, From: from, To: next, Device: device})
			from = next
		}
	}
	walk("u1", "w1", RemCordoned, RemFencing, RemOff, RemTainted)
	walk("u2", "w2", RemCordoned, RemFencing, RemOff, RemRecovered)
	commit(PauseFailover{Paused: true, For: time.Hour})
	commit(PauseFailover{Cluster: "l", Paused: true, For: time.Hour})
	commit(HoldFailover{Cluster: "k", For: time.Hour})
	rows := corruptKube(all)
	maps.Copy(rows, corruptRemediations(all))
	domaintest.FindContradictions(t, Domain, base, tables, at, rows)
}

// corruptKube are the contradictions of kube nodes, votes, pauses and holds.
func corruptKube(all Txn) map[string]func(Txn) {
	node := all.KubeNodes("k")[0]
	vote := all.KubeBallots("k", node.UID)[0]
	hold, _ := all.FailoverHold("k")
	pause := all.FailoverPauses()[1]
	changeNode := func(f func(*Node)) func(Txn) {
		return func(s Txn) {
			n := node
			f(&n)
			s.nodes.Put(kubeKey(node.Cluster, node.UID), n)
		}
	}
	return map[string]func(Txn){
		"kube node under another key": changeNode(func(n *Node) { n.UID = "x" }),
		"kube node against the rules": changeNode(func(n *Node) { n.Ready = 0 }),
		"kube node of no cluster": func(s Txn) {
			s.nodes.Put(kubeKey("", node.UID), Node{UID: node.UID, Name: "x", Ready: 1})
		},
		"kube node that changes later": changeNode(func(n *Node) { n.Changed = 1 << 60 }),
		"vote under another key":       func(s Txn) { s.votes.Put([]byte("x"), vote) },
		"vote missing of its session":  func(s Txn) { s.votesOf.Drop(vote.sessionKey()) },
		"vote of a session that is over": func(s Txn) {
			b := vote
			b.Session = 1
			s.putBallot(b)
		},
		"vote on no kube node":    func(s Txn) { s.nodes.Drop(kubeKey(node.Cluster, node.UID)) },
		"vote of the future":      func(s Txn) { b := vote; b.Since = s.Now() + 1; s.putBallot(b) },
		"pause under another key": func(s Txn) { s.pauses.Put([]byte("x"), pause) },
		"pause without deadline":  func(s Txn) { s.Disarm(pause.Until, duePause, []byte(pause.Cluster)) },
		"pause of the future":     func(s Txn) { p := pause; p.Since = s.Now() + 1; s.pauses.Put([]byte(p.Cluster), p) },
		"pause against the rules": func(s Txn) { p := pause; p.By = "\xff"; s.pauses.Put([]byte(p.Cluster), p) },
		"pause that is too long":  func(s Txn) { s.dropPause("l"); p := pause; p.Until = 1 << 60; s.putPause(p) },
		"hold without deadline":   func(s Txn) { s.Disarm(hold.Until, dueHold, []byte("k")) },
		"hold under another key":  func(s Txn) { h := hold; h.Cluster = "x"; s.holds.Put([]byte("k"), h) },
		"hold that is too long": func(s Txn) {
			s.Disarm(hold.Until, dueHold, []byte("k"))
			h := hold
			h.Until = 1 << 60
			s.putHold(h)
		},
	}
}

// corruptRemediations are the contradictions of remediations.
func corruptRemediations(all Txn) map[string]func(Txn) {
	open := all.Remediations()[0]
	ended := all.RemediationHistory(1)[0]
	change := func(r Remediation, f func(*Remediation)) func(Txn) {
		return func(s Txn) {
			r.Steps = slices.Clone(r.Steps)
			f(&r)
			s.remediations.Put(table.TokenKey(r.Intent), r)
		}
	}
	return map[string]func(Txn){
		"remediation under another key":  func(s Txn) { s.remediations.Put(table.TokenKey(2), ended) },
		"open remediation not by UID":    func(s Txn) { s.open.Drop(kubeKey(open.Cluster, open.UID)) },
		"open remediation not by name":   func(s Txn) { s.openName.Drop(kubeKey(open.Cluster, open.Node)) },
		"two remediations of a name":     func(s Txn) { s.openName.Put(kubeKey(open.Cluster, open.Node), ended.Intent) },
		"ended remediation that is open": func(s Txn) { s.open.Put(kubeKey(ended.Cluster, ended.UID), ended.Intent) },
		"ended remediation not ended":    func(s Txn) { s.ended.Drop(ended.endedKey()) },
		"remediation kept for ever": func(s Txn) {
			s.Disarm(ended.Expires, dueRemediation, table.TokenKey(ended.Intent))
		},
		"remediation in no state":          change(open, func(r *Remediation) { r.State = 0 }),
		"remediation of no kube node":      change(open, func(r *Remediation) { r.Node = "" }),
		"remediation never off":            change(open, func(r *Remediation) { r.WasOff = false }),
		"off without an attempt":           change(ended, func(r *Remediation) { r.Attempts, r.Device = 0, "" }),
		"attempt of no device":             change(open, func(r *Remediation) { r.Device = "" }),
		"remediation of the future":        change(open, func(r *Remediation) { r.Since = 1 << 60 }),
		"open remediation that expires":    change(open, func(r *Remediation) { r.Expires = 1 << 60 }),
		"remediation without steps":        change(open, func(r *Remediation) { r.Steps = nil }),
		"too many steps":                   change(open, func(r *Remediation) { r.Steps = slices.Repeat(r.Steps, 20) }),
		"another last step":                change(open, func(r *Remediation) { r.Steps = r.Steps[:3] }),
		"another first step":               change(open, func(r *Remediation) { r.Steps[0].Token++ }),
		"step off the table":               change(open, func(r *Remediation) { r.Steps[1].State = RemFencing }),
		"steps out of order":               change(open, func(r *Remediation) { r.Steps[2].Token = r.Steps[1].Token }),
		"step of the future":               change(open, func(r *Remediation) { r.Steps[len(r.Steps)-1].Token = 1 << 60 }),
		"step against the rules":           change(open, func(r *Remediation) { r.Steps[1].Reason = "\xff" }),
		"step that announces to no device": change(open, func(r *Remediation) { r.Steps[1].Device = "bmc" }),
	}
}
