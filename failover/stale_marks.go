package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

// sweepEvery is how often the leader looks for marks without an owner: of a leader
// that ended between two steps, of a remediation that an operator cancelled, or
// that is forgotten.
const sweepEvery = time.Minute

// sweep mends until ctx ends, at first when everything was seen.
func (s *clusterController) sweep(ctx context.Context) {
	for !s.tracker.Look().Synced {
		if !pace.Wait(ctx, roundEvery) {
			return
		}
	}
	for {
		for _, w := range s.tracker.Look().Nodes {
			if !slices.ContainsFunc(w.Taints, isOurs) {
				continue
			}
			if err := s.clearMarks(ctx, w.Name); err != nil && ctx.Err() == nil {
				s.failing.Warn("remove unneeded taints failed, retrying", "kube_node", w.Name, "retry_in", sweepEvery, "err", err)
			}
		}
		noteWell(ctx, s)
		if !pace.Wait(ctx, sweepEvery) {
			return
		}
	}
}

// clearMarks takes our marks from a Node without an open remediation, if they are not
// needed any more.
func (s *clusterController) clearMarks(ctx context.Context, name string) error {
	limited, cancel := context.WithTimeout(ctx, s.settings().Remedy.Timeout)
	n, err := s.cluster.Node(limited, name)
	cancel()
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	// The state is read after the Node: a remediation that begins later changes the
	// Node before it relies on it, and our change conflicts.
	v, _ := s.o.Log.Changed()
	if _, open := v.OpenRemediation(s.cluster.Name(), n.UID); open {
		return nil
	}
	m, known := s.marker(v, n)
	cancelled := known && m.State == kubestate.RemCancelled
	switch {
	case cancelled && !m.WasOff: // its cordon never had any work to do
	case n.Ready != kubestate.ReadyTrue || !s.judge.Returned(n.UID):
		return nil
	case known && !cancelled && n.BootID == m.BootID:
		return nil
	}
	return s.unmark(ctx, n)
}

// marker returns the remediation that set the marks of a Node: the one that its
// cordon names, else the newest that is known of it.
func (s *clusterController) marker(v fsm.View, n Node) (kubestate.Remediation, bool) {
	for _, t := range n.Taints {
		if t.Key != TaintCordon {
			continue
		}
		if intent, err := fencing.ParseToken(t.Value); err == nil {
			if m, ok := v.Remediation(intent); ok && m.UID == n.UID {
				return m, true
			}
		}
	}
	for _, m := range v.RemediationHistory(0) {
		if m.Cluster == s.cluster.Name() && m.UID == n.UID {
			return m, true
		}
	}
	return kubestate.Remediation{}, false
}
