package failover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// LeftCluster is a cluster that is named and not watched, because the mode is off. It is
// opened while there is something to end or to take back there, and closed after that.
type LeftCluster struct {
	Name string
	Open func() (c Cluster, end func(), err error)
}

// Idle says why nothing is done about kube nodes, "" if something is. What is open then
// ends when its machine is back, or its Node deleted, and its marks are taken away.
func (s Settings) Idle() string {
	f := facts{settings: s}
	return cmp.Or(byMode(&f, nil), byDryRun(&f, nil))
}

// endRemediation is the turn of a remediation about which nothing more is done: the mode is another
// one than when it began. No command is given and nothing is deleted.
func (r rejudged) endRemediation(ctx context.Context, m kubestate.Remediation, idle string) error {
	well, doubt := r.judge.returns(m.UID)
	if !well || doubt != "" {
		r.healthy = time.Time{}
		if !r.target.present(m) {
			if _, err := r.target.readNode(ctx, m); err != nil {
				return r.lost(ctx, m, err)
			}
		}
		return r.withhold(m, refusal{"mode", cmp.Or(doubt, idle) + ": its taints stay until its machine is back"})
	}
	n, err := r.target.readNode(ctx, m)
	if err != nil {
		return r.lost(ctx, m, err)
	}
	r.refuse(m.UID)
	return r.back(ctx, m, n)
}

// endLeft ends what the configuration of before left open in clusters that no controller
// watches, until ctx ends.
func (c *Controller) endLeft(ctx context.Context, a leader.Authority, peers *peerHosts) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, l := range c.o.Left {
		running.Go(func() { c.takeBack(ctx, a, peers, l) })
	}
	for range pace.After(ctx, sweepEvery) {
		v, _ := c.o.Log.Changed()
		for _, m := range v.Remediations() {
			if m.State != kubestate.RemStuck && !c.named(m.Cluster) {
				c.orphan(ctx, a, m)
			}
		}
	}
}

func (c *Controller) named(cluster string) bool {
	return slices.ContainsFunc(c.o.Clusters, func(o Cluster) bool { return o.Name() == cluster }) ||
		slices.ContainsFunc(c.o.Left, func(l LeftCluster) bool { return l.Name == cluster })
}

// orphan leaves a remediation to an operator whose cluster is not named any more: no peer
// can look at its machine, nor take its marks away.
func (c *Controller) orphan(ctx context.Context, a leader.Authority, m kubestate.Remediation) {
	limited, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	why := fmt.Sprintf(
		"failover.kubeconfigs of %s names no cluster %s: name it again, or take the taints of the Node away yourself and release it to cancelled",
		c.o.Peer, m.Cluster)
	res, err := a.Propose(limited, kubestate.StepRemediation{
		Intent: m.Intent, From: m.State, To: kubestate.RemStuck, Peer: c.o.Peer, Reason: kubestate.Reason(why),
		Millis: c.o.Wall().UnixMilli(),
	})
	if err == nil {
		err = res.Err()
	}
	c.o.Logger.Error("remediation is stuck and needs an operator", "kube_cluster", m.Cluster, "kube_node", m.Node,
		"intent", m.Intent, "state", m.State, "reason", why, "err", err)
}

// takeBack looks after one cluster while the mode is off: as long as a remediation is open
// there, and once in a leadership for marks that one has left.
func (c *Controller) takeBack(ctx context.Context, a leader.Authority, peers *peerHosts, l LeftCluster) {
	looked := false
	for range pace.Every(ctx, sweepEvery) {
		v, _ := c.o.Log.Changed()
		if open, known := remembered(v, l.Name); !open && (looked || !known) {
			continue
		}
		err := c.takeBackNow(ctx, a, peers, l)
		if looked = err == nil; !looked && ctx.Err() == nil {
			c.o.Logger.Warn("take failover's taints back failed, retrying", "kube_cluster", l.Name, "retry_in", sweepEvery,
				"err", err)
		}
	}
}

// remembered reports whether the log has an open remediation of a cluster, and whether it
// has any.
func remembered(v fsm.View, cluster string) (open, known bool) {
	for _, m := range v.RemediationHistory(0) {
		if m.Cluster == cluster {
			open, known = open || !m.State.Ended(), true
		}
	}
	return open, known
}

// takeBackNow watches a cluster until nothing is left there.
func (c *Controller) takeBackNow(ctx context.Context, a leader.Authority, peers *peerHosts, l LeftCluster) error {
	cluster, end, err := l.Open()
	if err != nil {
		return err
	}
	defer end()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newClusterController(c.o, c.Settings, cluster, a, peers, make(trackers))
	running.Go(func() { s.run(ctx) })
	for pace.Wait(ctx, proveEvery) {
		v, _ := c.o.Log.Changed()
		open, _ := remembered(v, l.Name)
		w := s.tracker.Look()
		marked := slices.ContainsFunc(w.Nodes, func(n WatchedNode) bool { return slices.ContainsFunc(n.Taints, isOurs) })
		if !open && !marked && w.Synced && w.API.Answers {
			return nil
		}
	}
	return ctx.Err()
}
