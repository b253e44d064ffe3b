package periodic

import (
	"context"
	"errors"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// maxNodesAsked is how many nodes one round reads from Ironic, each by itself.
const maxNodesAsked = 100

// endOvertaken cancels the introspections that wait for their machines to boot and whose nodes
// another user has by now. Whether a node is free was asked when its introspection began, and
// its MACs are on the whitelist until it ends: a restored log, or one that was off for a
// weekend, has introspections of which Ironic and the operators know nothing any more.
func (s *Sweeps) endOvertaken(ctx context.Context, a leader.Authority) error {
	v := s.Log.View()
	permitted := s.Live.Config().Processing.PermitActiveIntrospection
	var failed []error
	for _, node := range s.nextWaiting(v) {
		s.asked = node
		n, err := s.Ironic.Node(ctx, node)
		switch {
		case errors.Is(err, ironic.ErrNoNode): // the synchronisation's
			continue
		case err != nil && (ironic.Unjudged(err) || ctx.Err() != nil):
			return errors.Join(append(failed, err)...)
		case err != nil: // of this node
			failed = append(failed, err)
			continue
		case inspector.CheckProvision(n, permitted) == nil, asked(v, node, introspection.EventAbort):
			continue
		}
		s.Logger.Warn("introspection cancelled: another user has the node", "node", node, "provision_state", n.Provision)
		if err := propose(ctx, a, introspection.Enqueue{Node: node, Event: introspection.EventAbort}); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// nextWaiting returns the nodes that wait for their machines to boot and are asked about in this
// round: those after the one that was asked about last, in order.
func (s *Sweeps) nextWaiting(v fsm.View) (nodes []string) {
	for rec := range v.Records() {
		if rec.State == introspection.NodeWaiting {
			nodes = append(nodes, rec.Node)
		}
	}
	slices.Sort(nodes)
	next, found := slices.BinarySearch(nodes, s.asked)
	if found {
		next++
	}
	nodes = append(nodes[next:], nodes[:next]...)
	return nodes[:min(len(nodes), maxNodesAsked)]
}
