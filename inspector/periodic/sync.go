package periodic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

const maxReason = 500 // bytes of a foreign error text in a suspicion

// synchronise asks for the deletion of nodes that Ironic does not have any more.
func (s *Sweeps) synchronise(ctx context.Context, a leader.Authority) error {
	known, judged := recorded(s.Log.View()), judgedAlone(s.Log.View())
	if len(known)+len(judged) == 0 {
		return s.trust(ctx, a)
	}
	listed, err := s.Ironic.NodeIDs(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case err == nil && len(judged) > 0:
		if err := forget(ctx, a, judged, listed); err != nil {
			return err
		}
	case err != nil && len(known) == 0:
		return err
	case err != nil:
		return s.suspect(ctx, a, nodesync.Suspicion{Known: len(known),
			Reason: fmt.Sprintf("Ironic's nodes could not be listed: %.*s", maxReason, inspector.Clip(err.Error()))})
	}
	if len(known) == 0 {
		return s.trust(ctx, a)
	}
	v := s.Log.View()
	// A node whose deletion is queued is not missing any more.
	missing := slices.DeleteFunc(without(known, listed),
		func(node string) bool { return asked(v, node, introspection.EventDelete) })
	reason := nodesync.WhyDoubted("nodes", len(missing), len(known), len(listed))
	if reason != "" && !s.noneIsKnown(ctx, known, listed) {
		now := nodesync.Suspicion{Reason: reason, Missing: len(missing), Known: len(known), Digest: nodesync.Digest(missing)}
		if before, _ := v.SyncSuspicion(); !before.Settles(now, v.Now()) {
			return s.suspect(ctx, a, now)
		}
	}
	now, later := missing[:min(len(missing), maxSweep)], missing[min(len(missing), maxSweep):]
	for _, node := range now {
		if err := propose(ctx, a, introspection.Enqueue{Node: node, Event: introspection.EventDelete}); err != nil {
			return err
		}
	}
	if reason != "" && len(later) > 0 { // what settled it settled it for all of them
		rest := nodesync.Suspicion{Reason: reason, Missing: len(later), Known: len(known), Digest: nodesync.Digest(later),
			Confirmed: true}
		return propose(ctx, a, nodesync.Suspect{Suspicion: rest})
	}
	return s.trust(ctx, a)
}

// noneIsKnown reports whether Ironic, which lists no node at all, knows none of a few
// nodes by name either. So many can be asked for one by one; of more an operator
// decides, since an Ironic with an empty database would erase a site.
func (s *Sweeps) noneIsKnown(ctx context.Context, known, listed []string) bool {
	if len(listed) > 0 || len(known) > nodesync.SuspectCount {
		return false
	}
	for _, node := range known {
		if _, err := s.Ironic.Node(ctx, node); !errors.Is(err, ironic.ErrNoNode) {
			return false
		}
	}
	return true
}

// recorded lists the nodes with a record, in order, but for those of discovered
// machines that Ironic need not have yet.
func recorded(v fsm.View) []string {
	nodes := make([]string, 0, v.Nodes())
	for rec := range v.Records() {
		if rec.State != introspection.NodeEnrolling {
			nodes = append(nodes, rec.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// judgedAlone lists the nodes without a record that have a verdict: Ironic inspects them.
func judgedAlone(v fsm.View) (nodes []string) {
	for verdict := range v.Verdicts() {
		if _, is := v.Record(verdict.Node); !is {
			nodes = append(nodes, verdict.Node)
		}
	}
	return nodes
}

// forget drops the verdicts on nodes that Ironic does not list. No operator is asked:
// the next inspection brings another verdict.
func forget(ctx context.Context, a leader.Authority, judged, listed []string) error {
	if len(listed) == 0 {
		return nil
	}
	missing := without(judged, listed)
	for nodes := range slices.Chunk(missing[:min(len(missing), maxSweep)], expectations.MaxJudged) {
		if err := propose(ctx, a, expectations.Forget{Nodes: nodes}); err != nil {
			return err
		}
	}
	return nil
}

// without returns the known nodes that are not listed.
func without(known, listed []string) (missing []string) {
	there := make(map[string]bool, len(listed))
	for _, node := range listed {
		there[strings.ToLower(node)] = true
	}
	for _, node := range known {
		if !there[node] {
			missing = append(missing, node)
		}
	}
	return missing
}

// suspect notes why nothing was deleted, once for as long as it stays the same,
// so that every peer and every later leader knows it.
func (s *Sweeps) suspect(ctx context.Context, a leader.Authority, now nodesync.Suspicion) error {
	v := s.Log.View()
	if before, ok := v.SyncSuspicion(); ok && before.Reason == now.Reason && before.Digest == now.Digest {
		return nil
	}
	s.Logger.Warn("node sync skipped: implausible node list from Ironic", "reason", now.Reason,
		"missing", now.Missing, "known", now.Known, "confirm", "trivet node sync --confirm")
	note := nodesync.Suspect{Suspicion: now}
	if v.Admits(note) != nil {
		return nil // an older peer could not read it; nothing is deleted meanwhile
	}
	return propose(ctx, a, note)
}

// trust takes the suspicion back.
func (s *Sweeps) trust(ctx context.Context, a leader.Authority) error {
	if _, ok := s.Log.View().SyncSuspicion(); !ok {
		return nil
	}
	return propose(ctx, a, nodesync.Trust{})
}
