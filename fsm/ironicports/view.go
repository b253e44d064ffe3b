package ironicports

import (
	"iter"
	"slices"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Ports iterates over the ports that Ironic knows, in the order of their IDs.
func (s *Tables) Ports() iter.Seq[Port] {
	return func(yield func(Port) bool) {
		for _, port := range s.byID.All() {
			if !yield(port.Port) {
				return
			}
		}
	}
}

// Port returns a port by its ID.
func (s *Tables) Port(id string) (Port, bool) {
	port, ok := s.byID.Get([]byte(id))
	return port.Port, ok
}

// PortCount returns how many ports Ironic knows.
func (s *Tables) PortCount() int { return s.byID.Size() }

// PortsByMAC returns the ports that have a MAC, in the order of their IDs.
func (s *Tables) PortsByMAC(mac string) []Port {
	var out []Port
	for id := range s.denied.Owners(mac) {
		p, _ := s.Port(id)
		out = append(out, p)
	}
	return out
}

// MACsByPort returns the MACs of a node's ports, in the order of their IDs.
func (s *Tables) MACsByPort(node string) (macs []string) {
	for port := range table.Named(s.byNode.Under([]byte(node)), len(node), s.byID) {
		macs = append(macs, port.MAC)
	}
	return macs
}

// Pull returns the newest complete pull of Ironic's ports; ok is false if there
// was none since the cluster was founded, restored or recovered.
func (s *Tables) Pull() (p Pull, ok bool) { return s.pull, s.pull != Pull{} }

// DeniedMACs iterates over the blacklist, in order and each once: the MACs of
// all ports. One that is on the whitelist as well boots.
func (s *Tables) DeniedMACs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for mac := range s.denied.MACs() {
			if !yield(mac) {
				return
			}
		}
	}
}

// Denied reports whether a MAC is on the blacklist.
func (s *Tables) Denied(mac string) bool { return s.denied.Has(mac) }

// DeniedCount returns how many MACs the blacklist has.
func (s *Tables) DeniedCount() int { return s.denied.Size() }

// DeniedChanged is for the blacklist what AllowedChanged of introspection is for the
// whitelist; ask Denied.
func (s *Tables) DeniedChanged(index, last uint64) (macs []string, ok bool) {
	return s.denied.ChangedSince(index, last)
}

// NodesByPort returns the nodes that have a port with a MAC, each once, as of
// the newest pull of Ironic's ports.
func (s *Tables) NodesByPort(mac string) []string {
	var nodes []string
	for id := range s.denied.Owners(mac) {
		if port, ok := s.byID.Get([]byte(id)); ok && !slices.Contains(nodes, port.Node) {
			nodes = append(nodes, port.Node)
		}
	}
	return nodes
}

// OwnerByPort returns the node that all ports with a MAC are of, and the token of the entry that gave it the
// newest of them, zero if that is not known. Without a port, and with ports of several nodes, it is none.
func (s *Tables) OwnerByPort(mac string) (node string, since fencing.Token) {
	for id := range s.denied.Owners(mac) {
		port, _ := s.byID.Get([]byte(id))
		if node != "" && node != port.Node {
			return "", 0
		}
		node, since = port.Node, max(since, port.Since)
	}
	return node, since
}
