package simtest

import (
	"context"
	"errors"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// railLate is for how long a guard rail may forbid before a command is blamed for it: the
// watch, a look at the storage and a proof of leadership may be that old. It is the
// oracle's own figure.
const railLate = 6 * time.Second

// railKind is something that an operator, or the world, does against power-offs.
type railKind string

const (
	railOptOut   railKind = "opt-out"
	railCordon   railKind = "cordon"
	railMaintain railKind = "maintenance"
	railSelector railKind = "selector"
	railHost     railKind = "a peer runs on it"
	railDevice   railKind = "its device is away" // forbids nothing: its remediation is stuck
	railBudget   railKind = "budget"             // of the whole cluster
	railPause    railKind = "pause"              // of the whole cluster, and in the log
)

// railKinds are all of them.
func railKinds() []railKind {
	return []railKind{railOptOut, railCordon, railMaintain, railSelector, railHost, railDevice, railBudget, railPause}
}

// ofNode reports whether a kind concerns one kube node.
func (r railKind) ofNode() bool { return r != railBudget && r != railPause }

// errDeviceAway is what a device says that does not answer.
var errDeviceAway = errors.New("the device does not answer")

// ours reports whether the label of a kube node selects it.
func ours(n failover.Node) bool { return n.Labels["ours"] != "no" }

// setRail lets something forbid, or not any more; of a node that has it already it
// changes nothing. A pause is the caller's to put into the log.
func (k *KubeSite) setRail(kind railKind, node string, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !kind.ofNode() {
		if kind == railBudget {
			k.exhausted = time.Time{}
			if on {
				k.exhausted = time.Now()
			}
		}
		return
	}
	n := k.nodes[node]
	if _, has := n.rails[kind]; has == on {
		return
	}
	if on {
		n.rails[kind] = time.Now()
	} else {
		delete(n.rails, kind)
	}
	n.Lifecycle, n.Labels, n.Addresses = failover.Lifecycle{}, nil, nil
	delete(n.Annotations, failover.AnnotationOptOut)
	for kind := range n.rails { // order-free: each sets a field of its own
		switch kind {
		case railOptOut:
			n.Annotations[failover.AnnotationOptOut] = "true"
		case railCordon:
			n.Unschedulable = true
		case railMaintain:
			n.Conditions = map[string]failover.Observed{"MaintenanceInProgress": failover.ObservedTrue}
		case railSelector:
			n.Labels = map[string]string{"ours": "no"}
		case railHost:
			n.Addresses, _ = peersElsewhere{}.LookupHost(context.Background(), "")
		}
	}
	k.touch(&n.ResourceVersion)
}

// deviceAway reports whether the device of a machine does not answer.
func (k *KubeSite) deviceAway(node string) (away bool) {
	k.with(func() { _, away = k.nodes[node].rails[railDevice] })
	return away
}

// against says what forbids, for longer than railLate, a power-off command that a peer
// sent at a time to the machine of a remediation; "" if nothing does. Of a machine that
// was off, and is, nothing but a pause counts.
func (k *KubeSite) against(at time.Time, n *kubeNode, m kubestate.Remediation, v fsm.View) string {
	long := func(since time.Time) bool { return !since.IsZero() && at.Sub(since) > railLate }
	age := v.Now().Add(-railLate) // of entries
	if p, paused := v.FailoverPause(kubeCluster); paused && p.Since < age {
		return "failover is paused"
	}
	if m.WasOff && (!n.on || n.lies || time.Since(n.up)+kubeBoot < railLate) {
		return ""
	}
	if h, held := v.FailoverHold(kubeCluster); held && h.Since < age {
		return "storm"
	}
	for _, kind := range []railKind{railOptOut, railMaintain, railSelector, railHost} {
		if long(n.rails[kind]) {
			return string(kind)
		}
	}
	given := !n.unready.IsZero() && at.Sub(n.unready) > k.settings.Detection.NotReadyAfter-railLate
	if long(n.rails[railCordon]) && !given {
		return string(railCordon)
	}
	if long(k.exhausted) && !m.WasOff && offElsewhere(v, n.UID) {
		return string(railBudget)
	}
	return k.tooMany(n, long)
}

// offElsewhere reports whether the machine of another open remediation was off.
func offElsewhere(v fsm.View, uid string) bool {
	for _, r := range v.Remediations() {
		if r.UID != uid && r.WasOff {
			return true
		}
	}
	return false
}

// tooMany says whether others are not Ready for long, more than may be.
func (k *KubeSite) tooMany(n *kubeNode, long func(time.Time) bool) string {
	silent, masters, healthy := 0, 0, 0
	for _, name := range k.names {
		o := k.nodes[name]
		if long(o.unready) {
			silent++
		}
		if !o.ControlPlane {
			continue
		}
		if masters++; o != n && !long(o.unready) {
			healthy++
		}
	}
	switch {
	case silent > len(k.names)-k.settings.Guard.MinHealthy.AtLeast(len(k.names)):
		return "too many are not Ready"
	case n.ControlPlane && healthy < masters/2+1:
		return "etcd's majority"
	}
	return ""
}

// judgeRails is asked when a command to take the power goes out: what forbade it when it
// was sent, and whether the machine has booted since its remediation began.
func (k *KubeSite) judgeRails(w kubeWrite, n *kubeNode, v fsm.View) {
	m, open := v.OpenRemediation(kubeCluster, n.UID)
	if !open || k.c.Oracle.deposed(w.token, time.Now()) != 0 {
		return // judged by order
	}
	if why := k.against(w.at, n, m, v); why != "" {
		k.c.Oracle.broken("rails: %s took the power of %s against a guard rail: %s (off before: %v)",
			w.peer, n.Name, why, m.WasOff)
	}
	if !m.WasOff && n.BootID != m.BootID && w.at.Sub(n.booted) > railLate {
		k.c.Oracle.broken("judged-again: %s took the power of %s, which has booted %v before",
			w.peer, n.Name, w.at.Sub(n.booted))
	}
}
