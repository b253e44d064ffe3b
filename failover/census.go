package failover

import (
	"cmp"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// resident is a kube node of any cluster that is watched.
type resident struct {
	cluster string
	WatchedNode
	marks marks
}

func (r resident) is(cluster, uid string) bool { return r.cluster == cluster && r.UID == uid }

// name is that of a kube node among those of several clusters.
func (r resident) name() string { return r.cluster + "/" + r.Name }

// census finds kube nodes by what their machines tell, in all clusters: one machine may
// be a Node of two of them, or have a second Node under the name that it had before.
type census struct {
	all []resident
	by  map[string][]int // places in all, by a mark
}

// nodesWithMark returns the kube nodes that have a mark; none where it is not known.
func (c *census) nodesWithMark(name, value string) (found []resident) {
	if value == "" {
		return nil
	}
	for _, i := range c.by[markKey(name, value)] {
		found = append(found, c.all[i])
	}
	return found
}

// alone reports whether a kube node has a mark that no other machine has.
func (c *census) alone(name, value string, own resident) bool {
	found := c.nodesWithMark(name, value)
	others := slices.ContainsFunc(found,
		func(r resident) bool { return !r.is(own.cluster, own.UID) && own.marks.same(r.marks) == "" })
	here := slices.ContainsFunc(found, func(r resident) bool { return r.is(own.cluster, own.UID) })
	return here && !others
}

// outlives says how a kube node lives that is in use rather than another one of its machine,
// "" if that one was alive later: by what this leader saw of their Leases, else by what these
// say, which is by one clock.
func (n WatchedNode) outlives(other WatchedNode, d Detection) string {
	later := cmp.Compare(uint64(other.Renewed), uint64(n.Renewed)) // negative, which is never, becomes longest ago
	at, err := time.Parse(time.RFC3339, n.LeaseTime)
	was, err2 := time.Parse(time.RFC3339, other.LeaseTime)
	if later == 0 && err == nil && err2 == nil {
		later = at.Compare(was)
	}
	switch {
	case n.alive(d):
		return "is alive"
	case later > 0:
		return "was alive later"
	case later == 0:
		return "may have been alive later"
	}
	return ""
}

// alive reports whether a kube node works as far as Kubernetes can tell.
func (n WatchedNode) alive(d Detection) bool {
	return n.Ready == kubestate.ReadyTrue && (!n.Leased || n.LeaseAge < d.LeaseAge)
}

// identity is what the kubelet of a Node told of its machine.
func (n Node) identity() Identity { return Identity{n.BootID, n.SystemUUID, n.MachineID} }

// trackers are those of all clusters under one leadership, by cluster. They do not
// change while it lasts.
type trackers map[string]*Tracker

// residents returns the kube nodes of the clusters that match.
func (t trackers) residents(match func(cluster string) bool) (all []resident) {
	for cluster, tracker := range t { // order-free: they are found by what they tell
		if !match(cluster) {
			continue
		}
		for _, n := range tracker.Look().Nodes {
			all = append(all, resident{cluster, n, marksOf(n.identity(), n.Addresses)})
		}
	}
	return all
}

// elsewhere are the kube nodes of all clusters but one, and those clusters of which not all
// were told yet.
type elsewhere struct {
	nodes  []resident
	unread []string
}

func (t trackers) elsewhere(besides string) (e elsewhere) {
	e.nodes = t.residents(func(cluster string) bool { return cluster != besides })
	for cluster, tracker := range t { // order-free: sorted below
		if cluster != besides && !tracker.Look().Synced {
			e.unread = append(e.unread, cluster)
		}
	}
	slices.Sort(e.unread)
	return e
}
