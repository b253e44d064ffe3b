package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// Calls to the outside, as a test meets them.
const (
	callGet    = "get"
	callLease  = "get lease"
	callPods   = "list pods"
	callMark   = "mark"
	callDelete = "delete"
	callOff    = "off"
	callPower  = "power"
)

const fenceName = "bmc"

// errCut is the outcome of a call whose process died, or whose answer was lost.
var errCut = errors.New("connection lost")

// kubeClient is one process's connection to Kubernetes, to the kubelets and to the
// machines' power.
type kubeClient struct {
	k    *KubeSite
	p    *Peer
	gate *Gate
}

var (
	_ failover.Cluster       = (*kubeClient)(nil)
	_ failover.KubeletProber = (*kubeClient)(nil)
	_ failover.Fences        = kubeFences{}
	_ failover.Device        = kubeBMC{}
)

// Name implements failover.Cluster.
func (*kubeClient) Name() string { return kubeCluster }

// dead reports whether the process of this client has ended, or never began.
func (c *kubeClient) dead() bool {
	run := c.p.run.Load()
	return run == nil || run.gate != c.gate || c.p.Exited()
}

// read asks for something; the process may be stopped before and after.
func (c *kubeClient) read(ctx context.Context, call, node string, look func() error) error {
	if !c.gate.Wait(ctx.Done()) || !c.travel(ctx) {
		return ctx.Err()
	}
	if err := c.answers(ctx); err != nil {
		return err
	}
	var err error
	c.k.with(func() { err = look() })
	c.meet(call, node)
	if !c.gate.Wait(ctx.Done()) || c.dead() {
		return errCut
	}
	return err
}

// write changes something. Once begun it takes effect, however long the process is
// stopped and whatever its context says then: it may be in a socket already.
func (c *kubeClient) write(ctx context.Context, call, node string, effect func(w kubeWrite, v fsm.View) error) error {
	w := kubeWrite{at: time.Now(), peer: c.p.Name, token: c.p.leadToken.Load(), what: call, node: node}
	c.k.note(w)
	c.meet(call, node)
	c.gate.Wait(nil)
	if c.dead() || !c.travel(context.WithoutCancel(ctx)) {
		return errCut
	}
	if err := c.answers(ctx); err != nil {
		return err
	}
	v, _ := c.k.c.newest()
	var err error
	c.k.with(func() { err = effect(w, v) })
	c.gate.Wait(nil)
	if err == nil && c.k.c.rng.IntN(20) == 0 {
		return errCut
	}
	return errors.Join(err, ctx.Err())
}

func (c *kubeClient) meet(call, node string) {
	c.k.mu.Lock()
	meet := c.k.meet
	c.k.mu.Unlock()
	if meet != nil {
		meet(c.p, call, node)
	}
}

// travel is how long a request takes: mostly little, now and then a good part of a
// second.
func (c *kubeClient) travel(ctx context.Context) bool {
	d := time.Duration(c.k.c.rng.Int64N(int64(20 * time.Millisecond)))
	if c.k.c.rng.IntN(40) == 0 {
		d += time.Duration(c.k.c.rng.Int64N(int64(800 * time.Millisecond)))
	}
	return rest(ctx, d)
}

// rest waits and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// answers waits while the API server is stalled.
func (c *kubeClient) answers(ctx context.Context) error {
	for {
		var stalled bool
		c.k.with(func() { stalled = c.k.stalled })
		if !stalled {
			return nil
		}
		if !rest(ctx, kubeTick) {
			return fmt.Errorf("the API server does not answer: %w", ctx.Err())
		}
	}
}

// Watch implements failover.Watcher: it compares, ten times a second.
func (c *kubeClient) Watch(ctx context.Context, seen failover.Seen, synced func()) error {
	versions, renewals := make(map[string]string), make(map[string]int)
	for ctx.Err() == nil && c.gate.Wait(ctx.Done()) && c.answers(ctx) == nil {
		var changed []failover.Node
		renewed := make(map[string]int)
		c.k.with(func() {
			for _, name := range c.k.names {
				n := c.k.nodes[name]
				if versions[name] != n.ResourceVersion {
					versions[name], changed = n.ResourceVersion, append(changed, n.copied())
				}
				if last, known := renewals[name]; !known || last != n.renewals {
					renewals[name], renewed[name] = n.renewals, n.renewals
				}
			}
		})
		for _, n := range changed {
			seen.Node(n)
		}
		for name, n := range renewed {
			seen.Renewed(name, failover.Renewal{At: strconv.Itoa(n), Version: uint64(n)})
		}
		if synced != nil {
			synced()
			synced = nil
		}
		rest(ctx, kubeTick)
	}
	return nil
}

func (n *kubeNode) copied() failover.Node {
	c := n.Node
	c.Taints = slices.Clone(n.Taints)
	c.Annotations = maps.Clone(n.Annotations)
	return c
}

// Answers implements failover.Watcher.
func (c *kubeClient) Answers(ctx context.Context) error {
	return c.read(ctx, "ready", "", func() error { return nil })
}

// Node implements failover.Writer.
func (c *kubeClient) Node(ctx context.Context, name string) (n failover.Node, err error) {
	err = c.read(ctx, callGet, name, func() error {
		n = c.k.nodes[name].copied()
		return nil
	})
	return n, err
}

// Renewal implements failover.Writer.
func (c *kubeClient) Renewal(ctx context.Context, name string) (renewal failover.Renewal, err error) {
	err = c.read(ctx, callLease, name, func() error {
		n := c.k.nodes[name].renewals
		renewal = failover.Renewal{At: strconv.Itoa(n), Version: uint64(n), Stored: true}
		return nil
	})
	return renewal, err
}

// Mark implements failover.Writer. Like failover/kube it compares the token that it
// read, and leaves the rest to the resourceVersion.
func (c *kubeClient) Mark(ctx context.Context, as failover.Node, change failover.Change) (now failover.Node,
	err error) {
	if old, err := fencing.ParseToken(as.Annotations[kubeclient.AnnotationToken]); err == nil &&
		change.Token < uint64(old) {
		return failover.Node{}, failover.ErrConflict
	}
	err = c.write(ctx, callMark, as.Name, func(w kubeWrite, v fsm.View) error {
		n := c.k.nodes[as.Name]
		if n.ResourceVersion != as.ResourceVersion {
			return failover.ErrConflict
		}
		w.token = change.Token
		c.k.judgeMark(w, n, change, v)
		n.Taints = append(slices.DeleteFunc(n.Taints,
			func(t failover.Taint) bool { return slices.Contains(change.Remove, t) }), change.Add...)
		n.Annotations[kubeclient.AnnotationToken] = strconv.FormatUint(change.Token, 10)
		c.k.touch(&n.ResourceVersion)
		now = n.copied()
		return nil
	})
	return now, err
}

// Pods implements failover.Writer.
func (c *kubeClient) Pods(ctx context.Context, node string) (pods []failover.Pod, err error) {
	err = c.read(ctx, callPods, node, func() error {
		for _, name := range c.k.work {
			if p := c.k.pods[name]; p != nil && p.Node == node {
				pods = append(pods, p.Pod)
			}
		}
		return nil
	})
	return pods, err
}

// DeletePod implements failover.Writer.
func (c *kubeClient) DeletePod(ctx context.Context, p failover.Pod) error {
	return c.write(ctx, callDelete, p.Node, func(w kubeWrite, v fsm.View) error {
		have := c.k.pods[p.Name]
		switch {
		case have == nil || have.UID != p.UID:
			return failover.ErrGone
		case p.ResourceVersion != "" && have.ResourceVersion != p.ResourceVersion:
			return failover.ErrConflict
		}
		c.k.judgeDelete(w, c.k.nodes[have.Node], have, v)
		delete(c.k.pods, p.Name)
		return nil
	})
}

// Attachments implements failover.Writer.
func (c *kubeClient) Attachments(ctx context.Context, node string) (names []string, err error) {
	err = c.read(ctx, "list volumeattachments", node, func() error {
		for _, name := range c.k.work {
			if v := c.k.attached[name]; v != nil && v.node == node {
				names = append(names, "csi-"+name)
			}
		}
		return nil
	})
	return names, err
}

// Disrupted implements failover.Writer: there is one budget, of all pods, which lacks some.
func (c *kubeClient) Disrupted(ctx context.Context, _ []failover.Pod, _ bool) (names []string, err error) {
	err = c.read(ctx, "list poddisruptionbudgets", "", func() error {
		if !c.k.exhausted.IsZero() {
			names = []string{"pdb"}
		}
		return nil
	})
	return names, err
}

// Tell implements failover.Writer.
func (c *kubeClient) Tell(ctx context.Context, n failover.Node, _, reason, _ string) error {
	return c.write(ctx, "event "+reason, n.Name, func(kubeWrite, fsm.View) error { return nil })
}

// Knock implements failover.KubeletProber.
func (c *kubeClient) Knock(ctx context.Context, target string) failover.Heard {
	if !c.gate.Wait(ctx.Done()) || !rest(ctx, time.Millisecond) {
		return failover.HeardNothing
	}
	alive := false
	c.k.with(func() {
		for _, n := range c.k.nodes {
			alive = alive || n.Kubelet == target && n.alive() && !n.cut && !n.hidden
		}
	})
	if alive {
		return failover.HeardAlive
	}
	<-ctx.Done()
	return failover.HeardNothing
}

// kubeFences gives every machine its BMC.
type kubeFences struct{ c *kubeClient }

// For implements failover.Fences.
func (f kubeFences) For(failover.Machine) []failover.Device { return []failover.Device{kubeBMC(f)} }

// kubeBMC does what it is told, a second later.
type kubeBMC struct{ c *kubeClient }

// Name implements failover.Device.
func (kubeBMC) Name() string { return fenceName }

// Power implements failover.Device.
func (b kubeBMC) Power(ctx context.Context, m failover.Machine) (p failover.Power, err error) {
	if !b.c.gate.Wait(ctx.Done()) || !b.c.travel(ctx) {
		return failover.PowerUnknown, ctx.Err()
	}
	if b.c.k.deviceAway(m.Node) {
		return failover.PowerUnknown, errDeviceAway
	}
	b.c.k.with(func() {
		p = failover.PowerOff
		if n := b.c.k.nodes[m.Node]; n.on && !n.lies {
			p = failover.PowerOn
		}
	})
	b.c.meet(callPower, m.Node)
	if !b.c.gate.Wait(ctx.Done()) {
		return failover.PowerUnknown, ctx.Err()
	}
	return p, nil
}

// Off implements failover.Device. A BMC knows no versions, so a process that goes
// on after a stop looks at its context before it sends; what was sent is obeyed.
func (b kubeBMC) Off(ctx context.Context, m failover.Machine) error {
	k := b.c.k
	if k.deviceAway(m.Node) {
		return errDeviceAway
	}
	w := kubeWrite{at: time.Now(), peer: b.c.p.Name, token: b.c.p.leadToken.Load(), what: callOff, node: m.Node}
	k.note(w)
	b.c.meet(callOff, m.Node)
	if !b.c.gate.Wait(ctx.Done()) || ctx.Err() != nil || b.c.dead() {
		return errors.Join(errCut, ctx.Err())
	}
	v, _ := k.c.newest()
	k.with(func() {
		n := k.nodes[m.Node]
		k.touched(w, n)
		k.judgeOff(w, n, v)
		k.judgeRails(w, n, v)
	})
	k.bg.Go(func() {
		time.Sleep(fenceTime) // in a bubble
		k.with(func() {
			if n := k.nodes[m.Node]; !n.lies {
				n.darken()
			}
		})
	})
	if !rest(ctx, fenceTime) || !b.c.gate.Wait(ctx.Done()) {
		return ctx.Err()
	}
	return nil
}

// On implements failover.Device.
func (b kubeBMC) On(context.Context, failover.Machine) error {
	return errors.New("nobody asked for it")
}

// peersElsewhere finds every peer of Trivet on a host that is no kube node.
type peersElsewhere struct{}

// LookupHost implements failover.Finder.
func (peersElsewhere) LookupHost(context.Context, string) ([]string, error) {
	return []string{"192.0.2.200"}, nil
}

// Own implements failover.Finder.
func (peersElsewhere) Own() ([]string, error) { return nil, nil }
