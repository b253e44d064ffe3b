package simtest

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// control is one round of Kubernetes' own controllers.
func (k *KubeSite) control() {
	for _, name := range k.names {
		if n := k.nodes[name]; n.Ready == kubestate.ReadyTrue && time.Since(n.renewed) > kubeGrace {
			n.Ready, n.unready = kubestate.ReadyUnknown, time.Now()
			k.touch(&n.ResourceVersion)
		}
	}
	collects := time.Now().Truncate(kubeTick).Sub(time.Now().Truncate(kubeCollect)) == 0
	for _, name := range k.work {
		if p := k.pods[name]; p != nil {
			k.evict(p, collects)
		}
		if k.pods[name] == nil {
			k.schedule(name)
		}
		if p := k.pods[name]; p != nil {
			k.attach(p)
		}
	}
}

// evict is the taint controller, which ends pods politely, and the garbage
// collection that takes what nobody ends.
func (k *KubeSite) evict(p *kubePod, collects bool) {
	n := k.nodes[p.Node]
	switch {
	case !outOfService(n.Node):
	case p.Deleting:
		if collects && n.Ready != kubestate.ReadyTrue {
			delete(k.pods, p.Name)
		}
	case p.ends.IsZero():
		p.ends = time.Now().Add(time.Duration(k.c.rng.Int64N(int64(3 * time.Second))))
	case !time.Now().Before(p.ends):
		p.Deleting = true
		k.touch(&p.ResourceVersion)
	}
}

// outOfService reports whether Kubernetes may let go of what a Node holds.
func outOfService(n failover.Node) bool {
	return slices.ContainsFunc(n.Taints, func(t failover.Taint) bool { return t.Key == failover.TaintOutOfService })
}

// schedule makes a pod anew that shall exist, wherever it may.
func (k *KubeSite) schedule(name string) {
	var fit []string
	for _, node := range k.names {
		if n := k.nodes[node]; n.Ready == kubestate.ReadyTrue && len(n.Taints) == 0 {
			fit = append(fit, node)
		}
	}
	if len(fit) > 0 {
		k.bind(name, fit[k.c.rng.IntN(len(fit))])
	}
}

// attach is the attach-detach controller, with a driver that believes it.
func (k *KubeSite) attach(p *kubePod) {
	v := k.attached[p.Name]
	switch {
	case v == nil:
		k.attached[p.Name] = &kubeVolume{node: p.Node}
		p.starts = time.Now().Add(kubeStart)
		return
	case v.node == p.Node:
		v.unused = time.Time{}
		return
	case v.unused.IsZero():
		v.unused = time.Now()
	}
	n := k.nodes[v.node]
	unmounted := n.alive() && n.reaches() && n.runs[p.Name] == ""
	if unmounted || outOfService(n.Node) || time.Since(v.unused) > kubeForced {
		delete(k.attached, p.Name)
	}
}

// look is the oracle's view of all machines: a pod, and the volume of its name, is
// in one place only, whatever the API server says. A machine of which a device lies,
// and that none heard, cannot be found out; it may run what runs elsewhere until it is
// started again.
func (k *KubeSite) look() {
	at := make(map[string]string, len(k.work))
	for _, node := range k.names {
		if k.nodes[node].lies {
			continue
		}
		for name := range k.nodes[node].runs { // of none without power
			if other := at[name]; other != "" {
				k.c.Oracle.broken("one-writer: %s runs and writes its volume on %s and %s at once", name, other, node)
			}
			at[name] = node
		}
	}
}

// runsOn returns where a pod runs, "" for nowhere.
func (k *KubeSite) runsOn(name string) string {
	for node, n := range k.nodes {
		if n.on && n.reaches() && n.runs[name] != "" {
			return node
		}
	}
	return ""
}

// idle lists the pods that shall run and do not.
func (k *KubeSite) idle() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.work {
		if k.runsOn(name) == "" {
			names = append(names, name)
		}
	}
	return names
}

// marked lists the Nodes that have taints.
func (k *KubeSite) marked() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.names {
		if len(k.nodes[name].Taints) > 0 {
			names = append(names, name)
		}
	}
	return names
}
