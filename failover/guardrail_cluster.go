package failover

import (
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// byCutOff leaves alone what is cut off from the API server together with others
// while most peers hear its kubelet. The machines run, and so do their pods: the
// fault is in the network between them and the API server, and power-offs would
// turn it into an outage.
func byCutOff(f *facts, n *nodeFacts) string {
	if !n.cutOff() {
		return ""
	}
	var names []string
	for _, m := range f.nodes {
		if m.cutOff() {
			names = append(names, m.Name)
		}
	}
	if len(names) < 2 {
		return ""
	}
	return fmt.Sprintf(
		"%d kube nodes do not reach the API server (%s), and most peers hear their kubelets: the fault is in the network, not in the machines",
		len(names), listed(names))
}

// knownBy says what shows where a peer runs, if it is not what everybody sees.
func knownBy(mark string) string {
	if mark == "name" || mark == "address" {
		return ""
	}
	return " (it tells the same " + mark + ")"
}

// byNodeInUse leaves a machine to the other Node under which it works: one that was renamed,
// or joined to another cluster, leaves a Node behind that looks dead. What is done about the
// machine, and by which marks, rails and pauses nothing is, is said of the Node in use,
// also when that one is ill or dead. Of two that are silent the one that was alive later is in
// use: the work of the machine is under that one.
func byNodeInUse(f *facts, n *nodeFacts) string {
	all, own := f.census(), f.resident(n)
	for _, key := range own.marks.keys() {
		for _, i := range all.by[key] {
			other := &all.all[i]
			if other.is(f.cluster, n.UID) {
				continue
			}
			lives, by := other.outlives(n.WatchedNode, f.settings.Detection), own.marks.same(other.marks)
			if lives != "" && by != "" {
				return fmt.Sprintf(
					"kube node %s %s and has the same %s, so both are one machine: delete the Node that is not in use",
					other.name(), lives, by)
			}
		}
	}
	return ""
}

// rejoining is within which time no machine is joined to another cluster: until then one
// that renewed its Lease is where it was.
const rejoining = time.Minute

// byTwin leaves a machine alone that has another Node in use, or may have joined a cluster that
// has not been read. One that this leader saw alive lately has not: a cluster whose API server
// is away does not keep the others from being looked after.
func byTwin(f *facts, n *nodeFacts) string {
	if why := byNodeInUse(f, n); why != "" {
		return why
	}
	lately := max(rejoining, 2*f.settings.Detection.LeaseAge)
	if len(f.others.unread) == 0 || n.Renewed >= 0 && n.Renewed < lately {
		return ""
	}
	return fmt.Sprintf(
		"kube nodes of cluster %s have not been read yet; one may be this machine, whose Lease this leader has not seen renewed within %v",
		listed(f.others.unread), lately)
}

func byStorm(f *facts, _ *nodeFacts) string {
	if !f.held {
		return ""
	}
	return fmt.Sprintf(
		"too many kube nodes were unhealthy together; nothing is begun for another %v (failover.storm_cooldown)",
		rounded(max(0, f.hold.Until.Sub(f.clock))))
}

// byControlPlane keeps it to one control-plane node at a time.
func byControlPlane(f *facts, n *nodeFacts) string {
	if !n.ControlPlane {
		return ""
	}
	for _, r := range f.open {
		if r.ControlPlane && goesBefore(r, n.UID, n.remediation) {
			return fmt.Sprintf("a remediation of %s is open, and of control-plane nodes there is one at a time", r.Node)
		}
	}
	return ""
}

// goesBefore reports whether an open remediation goes before that of another kube node,
// which need not have begun: two that wait for each other would wait for ever. The first
// is whose machine was off, then which has commanded, then which began.
func goesBefore(r kubestate.Remediation, uid string, than *kubestate.Remediation) bool {
	switch {
	case r.UID == uid:
		return false
	case than == nil, r.WasOff:
		return true
	case (r.Attempts > 0) != (than.Attempts > 0):
		return r.Attempts > 0
	}
	return r.Intent < than.Intent
}

// byEtcdQuorum leaves etcd its majority, without asking it: its members are taken
// to be the control-plane nodes, and each unhealthy one to be lost.
func byEtcdQuorum(f *facts, n *nodeFacts) string {
	if !n.ControlPlane {
		return ""
	}
	all, others := 0, 0
	for _, m := range f.nodes {
		if !m.ControlPlane {
			continue
		}
		all++
		if m.UID != n.UID && m.Ready == kubestate.ReadyTrue && !f.unhealthy(m) {
			others++
		}
	}
	switch {
	case all == 1:
		return "it is the only control-plane node"
	case others < all/2+1:
		return fmt.Sprintf("without it %d of %d control-plane nodes are healthy, and etcd needs %d", others, all, all/2+1)
	}
	return ""
}

// byOwnQuorum never switches off a living peer of ours, nor one that the majority
// of the peers would miss. A living peer of which it is not known where it runs may run
// anywhere.
func byOwnQuorum(f *facts, n *nodeFacts) string {
	var here, somewhere *peerFacts
	others, by, doubt, own := 0, "", "", f.resident(n)
	for i := range f.peers {
		p := &f.peers[i]
		if mark := f.peerSignOn(p, own); mark != "" {
			if here == nil || p.alive {
				here, by = p, mark
			}
			continue
		}
		if p.alive {
			others++
			if why := f.whyPeerUnplaced(p); why != "" {
				somewhere, doubt = p, why
			}
		}
	}
	switch {
	case here == nil && somewhere != nil:
		return fmt.Sprintf("peer %s may run on it: it is alive, and %s", somewhere.name, doubt)
	case here == nil:
		return ""
	case here.self:
		return fmt.Sprintf("peer %s, which leads, runs on it%s", here.name, knownBy(by))
	case here.alive:
		return fmt.Sprintf("peer %s runs on it and is alive: its session lives%s", here.name, knownBy(by))
	case others < len(f.peers)/2+1:
		return fmt.Sprintf("peer %s runs on it, and without it %d of %d peers are alive, which is no majority", here.name,
			others, len(f.peers))
	}
	return ""
}
