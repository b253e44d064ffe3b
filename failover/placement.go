package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// census returns what tells the machines of all kube nodes apart.
func (f *facts) census() *census {
	if f.counted == nil {
		c := &census{all: slices.Clone(f.others.nodes), by: make(map[string][]int)}
		for _, n := range f.nodes {
			c.all = append(c.all, f.resident(n))
		}
		for i, r := range c.all {
			for _, key := range r.marks.keys() {
				c.by[key] = append(c.by[key], i)
			}
		}
		f.counted = c
	}
	return f.counted
}

// peerSignOn names what shows that a peer runs on a kube node, "" if nothing does. The boot ID
// that it tells decides where some kube node has the same: names and addresses are
// unique within one cluster and one network alone. Where none has it, which may be
// because its kubelet has told nothing since the machine booted, all else counts that
// the two have in common and no other kube node has.
func (f *facts) peerSignOn(p *peerFacts, own resident) string {
	all, machine := f.census(), marksOf(p.machine, nil)
	homes := all.nodesWithMark("boot ID", machine.boot)
	if slices.ContainsFunc(homes, func(home resident) bool {
		return home.is(own.cluster, own.UID) || own.marks.same(home.marks) != ""
	}) {
		return "boot ID"
	}
	if len(homes) > 0 {
		return ""
	}
	for _, host := range p.hosts {
		switch {
		case sameHost(host, own.Name):
			return "name"
		case slices.ContainsFunc(own.Addresses, func(a string) bool { return sameHost(host, a) }):
			return "address"
		}
	}
	switch {
	case all.alone("system UUID", machine.uuid, own):
		return "system UUID"
	case all.alone("machine ID", machine.machine, own):
		return "machine ID"
	}
	return ""
}

func (f *facts) resident(n *nodeFacts) resident {
	return resident{f.cluster, n.WatchedNode, marksOf(n.identity(), n.Addresses)}
}

// whyPeerUnplaced says why a peer that was found on no kube node may run on any of them, "" if it
// does not.
func (f *facts) whyPeerUnplaced(p *peerFacts) string {
	switch {
	case p.mute:
		return "it has not told the leader of late which machine it runs on"
	case len(p.unknown) == 0, len(f.census().nodesWithMark("boot ID", idMark(p.machine.BootID))) > 0:
		return ""
	}
	return fmt.Sprintf("the leader cannot resolve %s to an address", strings.Join(p.unknown, ", "))
}

// placeEvery is how often the leader notes where the peers run, for people. What is
// done about a kube node does not rest on it.
const placeEvery = 10 * time.Second

// Place is where a peer runs, as far as the leader knows.
type Place struct {
	Peer string // its name
	Node string // CLUSTER/NODE that it runs on, "" for none
	By   string // what shows that
	// Unknown says that it lives and may run on a kube node: what it tells of its machine
	// does not set it apart from those of all of them.
	Unknown bool
}

// places says where each peer runs by what is known of the kube nodes of one cluster.
func (f *facts) places() []Place {
	all := make([]Place, len(f.peers))
	for i, p := range f.peers {
		all[i] = Place{Peer: p.name, Unknown: p.alive && p.mute}
	}
	for _, n := range f.nodes {
		own := f.resident(n)
		for i := range f.peers {
			p := &f.peers[i]
			if by := f.peerSignOn(p, own); by != "" && all[i].Node == "" {
				all[i].Node, all[i].By = own.name(), by
			}
			all[i].Unknown = all[i].Unknown || p.alive && !marksOf(p.machine, nil).apart(own.marks)
		}
	}
	return all
}

// merge adds what the kube nodes of another cluster show. Both name the same peers, in
// the same order, unless one has joined in between.
func merge(all, more []Place) []Place {
	for _, place := range more {
		i := slices.IndexFunc(all, func(p Place) bool { return p.Peer == place.Peer })
		switch {
		case i < 0:
			all = append(all, place)
		default:
			unknown := place.Unknown || all[i].Unknown
			if all[i].Node == "" || all[i].By != "boot ID" && place.By == "boot ID" {
				all[i] = place
			}
			all[i].Unknown = unknown
		}
	}
	return all
}
