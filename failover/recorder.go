package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// Recorder writes into the log what the leader sees of the kube nodes of one
// cluster, so that every peer knows whom to ask and the next leader what was. Only
// changes are written.
type Recorder struct {
	Cluster string
	Wall    func() time.Time // for display
}

// Record brings the log up to date. It does nothing before everything that exists
// was told: who is not listed yet is not gone. Nodes that the log cannot hold are
// left out and named in the error; the others are recorded.
func (r Recorder) Record(ctx context.Context, p Proposer, v fsm.View, w Watched) error {
	if !w.Synced {
		return nil
	}
	changes, unfit := r.changes(v, w.Nodes)
	for _, c := range changes {
		c.Millis = r.Wall().UnixMilli()
		res, err := p.Propose(ctx, c)
		if err == nil {
			err = res.Err()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("record kube nodes of %s: %w", r.Cluster, err), unfit)
		}
	}
	return unfit
}

// changes compares. A Node that was never seen Ready stays out of the log.
func (r Recorder) changes(v fsm.View, nodes []WatchedNode) (out []kubestate.PutNodes, unfit error) {
	room := func() *kubestate.PutNodes {
		if last := len(out) - 1; last >= 0 && len(out[last].Nodes)+len(out[last].Remove) < kubestate.MaxNodeChanges {
			return &out[last]
		}
		out = append(out, kubestate.PutNodes{Cluster: r.Cluster})
		return &out[len(out)-1]
	}
	here := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		here[n.UID] = true
	}
	for _, old := range v.KubeNodes(r.Cluster) { // first: they make room for others
		if !here[old.UID] {
			c := room()
			c.Remove = append(c.Remove, old.UID)
		}
	}
	for _, n := range nodes {
		now := recordOf(r.Cluster, n.Node)
		old, known := v.KubeNode(r.Cluster, n.UID)
		now.Changed, now.ChangedMillis = old.Changed, old.ChangedMillis
		if now == old || !known && n.Ready != kubestate.ReadyTrue {
			continue
		}
		if err := now.Validate(); err != nil {
			unfit = errors.Join(unfit, fmt.Errorf("kube node %s cannot be recorded: %w", n.Name, err))
			continue
		}
		c := room()
		c.Nodes = append(c.Nodes, now)
	}
	return out, unfit
}

// recordOf is what the log holds of a Node.
func recordOf(cluster string, n Node) kubestate.Node {
	return kubestate.Node{
		Cluster: cluster, UID: n.UID, Name: n.Name, BootID: n.BootID, Ready: n.Ready, Probe: n.Kubelet,
		ControlPlane: n.ControlPlane,
	}
}
