package fsm

import (
	"bytes"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// KubeClusters returns the names of the clusters that kube nodes are known of, in
// order. It costs what it returns.
func (v View) KubeClusters() []string {
	var names []string
	for key, ok := v.data.failover.nodes.From(nil); ok; {
		name := key[:bytes.IndexByte(key, 0)]
		names = append(names, string(name))
		key, ok = v.data.failover.nodes.From(append(bytes.Clone(name), 1)) // beyond all of its nodes
	}
	return names
}

// KubeNodes returns the kube nodes of a cluster in the order of their UIDs.
func (v View) KubeNodes(cluster string) []KubeNode {
	return table.List(v.data.failover.nodes.Under(kubeKey(cluster, "")))
}

// KubeNode returns a kube node by its UID.
func (v View) KubeNode(cluster, uid string) (KubeNode, bool) {
	return v.data.failover.nodes.Get(kubeKey(cluster, uid))
}

// KubeNodesKnown returns how many kube nodes all clusters have together.
func (v View) KubeNodesKnown() int { return v.data.failover.nodes.Size() }

// KubeVotes counts what live peers say of a kube node: it is silent, it answers.
// A peer without an opinion is neither. Voters are all members but observers,
// those included that are down or have yet to be promoted: a majority is of
// these. An observer's opinion counts for nothing.
func (v View) KubeVotes(cluster, uid string) (silent, answers, voters int) {
	for _, b := range v.data.failover.votes.Under(ballotPrefix(cluster, uid)) {
		switch {
		case v.observes(b.Session):
		case b.Silent:
			silent++
		default:
			answers++
		}
	}
	return silent, answers, v.data.peers.voters()
}

// KubeBallots returns the votes on a kube node, one a session, for display.
func (v View) KubeBallots(cluster, uid string) []KubeBallot {
	return table.List(v.data.failover.votes.Under(ballotPrefix(cluster, uid)))
}

// KubeVotesOf returns the votes of a session on the kube nodes of a cluster, in
// the order of their UIDs: what its peer has told the log.
func (v View) KubeVotesOf(session fencing.Token, cluster string) []KubeBallot {
	var out []KubeBallot
	for key := range v.data.failover.votesOf.Under(table.LongKey(uint64(session), kubeKey(cluster, ""))) {
		b, _ := v.data.failover.votes.Get(v.data.failover.ballotAt(key))
		out = append(out, b)
	}
	return out
}

// Remediations returns those that are open, the oldest first.
func (v View) Remediations() []Remediation {
	var out []Remediation
	if v.data.failover.open.Size() == 0 {
		return nil
	}
	for _, r := range v.data.failover.remediations.All() {
		if !r.State.Ended() {
			out = append(out, r)
		}
	}
	return out
}

// Remediation returns one by its intent.
func (v View) Remediation(intent fencing.Token) (Remediation, bool) {
	return v.data.failover.remediations.Get(table.TokenKey(intent))
}

// OpenRemediation returns the one that is open for a kube node, by its UID.
func (v View) OpenRemediation(cluster, uid string) (Remediation, bool) {
	intent, ok := v.data.failover.open.Get(kubeKey(cluster, uid))
	if !ok {
		return Remediation{}, false
	}
	return v.Remediation(intent)
}

// RemediationHistory returns remediations, open and ended, the newest first: at
// most limit, all that are kept if limit is 0.
func (v View) RemediationHistory(limit int) []Remediation {
	var out []Remediation
	for _, r := range v.data.failover.remediations.Descending(nil) {
		out = append(out, r)
		if len(out) == limit {
			break
		}
	}
	return out
}

// FailoverPause returns the pause that a cluster is under: that of all clusters,
// else its own. With "" it is that of all.
func (v View) FailoverPause(cluster string) (p FailoverPause, paused bool) {
	return v.data.paused(cluster)
}

// FailoverPauses returns all pauses in the order of their clusters, that of all
// first.
func (v View) FailoverPauses() []FailoverPause { return table.List(v.data.failover.pauses.All()) }

// FailoverHold returns the hold that a cluster is under.
func (v View) FailoverHold(cluster string) (h FailoverHold, held bool) {
	return v.data.failover.holds.Get([]byte(cluster))
}
