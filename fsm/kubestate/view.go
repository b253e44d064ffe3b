package kubestate

import (
	"bytes"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// KubeClusters returns the names of the clusters that kube nodes are known of, in
// order. It costs what it returns.
func (s *Tables) KubeClusters() []string {
	var names []string
	for key, ok := s.nodes.From(nil); ok; {
		name := key[:bytes.IndexByte(key, 0)]
		names = append(names, string(name))
		key, ok = s.nodes.From(append(bytes.Clone(name), 1)) // beyond all of its nodes
	}
	return names
}

// KubeNodes returns the kube nodes of a cluster in the order of their UIDs.
func (s *Tables) KubeNodes(cluster string) []Node {
	return table.List(s.nodes.Under(kubeKey(cluster, "")))
}

// KubeNode returns a kube node by its UID.
func (s *Tables) KubeNode(cluster, uid string) (Node, bool) {
	return s.nodes.Get(kubeKey(cluster, uid))
}

// KubeNodesKnown returns how many kube nodes all clusters have together.
func (s *Tables) KubeNodesKnown() int { return s.nodes.Size() }

// KubeBallots returns the votes on a kube node, one a session, for display.
func (s *Tables) KubeBallots(cluster, uid string) []Ballot {
	return table.List(s.votes.Under(ballotPrefix(cluster, uid)))
}

// KubeVotesOf returns the votes of a session on the kube nodes of a cluster, in
// the order of their UIDs: what its peer has told the log.
func (s *Tables) KubeVotesOf(session fencing.Token, cluster string) []Ballot {
	var out []Ballot
	for key := range s.votesOf.Under(table.LongKey(uint64(session), kubeKey(cluster, ""))) {
		b, _ := s.votes.Get(s.ballotAt(key))
		out = append(out, b)
	}
	return out
}

// Remediations returns those that are open, the oldest first.
func (s *Tables) Remediations() []Remediation {
	var out []Remediation
	if s.open.Size() == 0 {
		return nil
	}
	for _, r := range s.remediations.All() {
		if !r.State.Ended() {
			out = append(out, r)
		}
	}
	return out
}

// Remediation returns one by its intent.
func (s *Tables) Remediation(intent fencing.Token) (Remediation, bool) {
	return s.remediations.Get(table.TokenKey(intent))
}

// OpenRemediation returns the one that is open for a kube node, by its UID.
func (s *Tables) OpenRemediation(cluster, uid string) (Remediation, bool) {
	intent, ok := s.open.Get(kubeKey(cluster, uid))
	if !ok {
		return Remediation{}, false
	}
	return s.Remediation(intent)
}

// RemediationHistory returns remediations, open and ended, the newest first: at
// most limit, all that are kept if limit is 0.
func (s *Tables) RemediationHistory(limit int) []Remediation {
	var out []Remediation
	for _, r := range s.remediations.Descending(nil) {
		out = append(out, r)
		if len(out) == limit {
			break
		}
	}
	return out
}

// FailoverPause returns the pause that a cluster is under: that of all clusters,
// else its own. With "" it is that of all.
func (s *Tables) FailoverPause(cluster string) (p Pause, paused bool) {
	if p, ok := s.pauses.Get(nil); ok {
		return p, true
	}
	return s.pauses.Get([]byte(cluster))
}

// FailoverPauses returns all pauses in the order of their clusters, that of all
// first.
func (s *Tables) FailoverPauses() []Pause { return table.List(s.pauses.All()) }

// FailoverHold returns the hold that a cluster is under.
func (s *Tables) FailoverHold(cluster string) (h Hold, held bool) {
	return s.holds.Get([]byte(cluster))
}
