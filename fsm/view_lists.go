package fsm

import (
	"iter"
	"slices"
	"strings"
)

// Ports iterates over the ports that Ironic knows, in the order of their IDs.
func (v View) Ports() iter.Seq[Port] {
	return func(yield func(Port) bool) {
		for _, p := range v.data.ports.byID.All() {
			if !yield(p) {
				return
			}
		}
	}
}

// Port returns a port by its ID.
func (v View) Port(id string) (Port, bool) { return v.data.ports.byID.Get([]byte(id)) }

// PortCount returns how many ports Ironic knows.
func (v View) PortCount() int { return v.data.ports.byID.Size() }

// PortsByMAC returns the ports that have a MAC, in the order of their IDs.
func (v View) PortsByMAC(mac string) []Port {
	var out []Port
	for id := range v.data.ports.denied.Owners(mac) {
		p, _ := v.Port(id)
		out = append(out, p)
	}
	return out
}

// Pull returns the newest complete pull of Ironic's ports; ok is false if there
// was none since the cluster was founded, restored or recovered.
func (v View) Pull() (p Pull, ok bool) { return v.data.ports.pull, v.data.ports.pull != Pull{} }

// DeniedMACs iterates over the blacklist, in order and each once: the MACs of
// all ports. One that is on the whitelist as well boots.
func (v View) DeniedMACs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for mac := range v.data.ports.denied.MACs() {
			if !yield(mac) {
				return
			}
		}
	}
}

// Denied reports whether a MAC is on the blacklist.
func (v View) Denied(mac string) bool { return v.data.ports.denied.Has(mac) }

// DeniedCount returns how many MACs the blacklist has.
func (v View) DeniedCount() int { return v.data.ports.denied.Size() }

// PortsChangedSince returns, in order and each once, the MACs that joined or
// left the blacklist after the entry at index; Denied tells where each is now.
// ok is false when this view cannot tell, because too much changed since, or it
// was restored from a later snapshot, or it is older than index: compare the
// whole list then. It costs what it returns.
func (v View) PortsChangedSince(index uint64) (macs []string, ok bool) {
	return v.data.ports.denied.ChangedSince(index, v.Index())
}

// AllowedMACs iterates over the whitelist, in order and each once, with the
// node, the first of several, that the MAC belongs to: nodes under
// introspection whose boot is expected, from the moment their MACs are saved to
// their end in finished or error, and nodes that Ironic itself inspects.
func (v View) AllowedMACs() iter.Seq2[string, string] {
	return func(yield func(mac, node string) bool) {
		for mac, owner := range v.data.nodes.whitelist.MACs() {
			if !yield(mac, strings.TrimPrefix(owner, ironicMark)) {
				return
			}
		}
	}
}

// Allowed reports whether a MAC is on the whitelist.
func (v View) Allowed(mac string) bool { return v.data.nodes.whitelist.Has(mac) }

// AllowedCount returns how many MACs the whitelist has.
func (v View) AllowedCount() int { return v.data.nodes.whitelist.Size() }

// AllowedChangedSince is for the whitelist what PortsChangedSince is for the
// blacklist; ask Allowed.
func (v View) AllowedChangedSince(index uint64) (macs []string, ok bool) {
	return v.data.nodes.whitelist.ChangedSince(index, v.Index())
}

// Introspecting reports whether any node is expected to boot, also one of which
// no MAC is known, or one that Ironic itself inspects. Reapplying stored data
// boots nothing and does not count.
func (v View) Introspecting() bool { return v.data.nodes.booting+v.data.nodes.inspected.Size() > 0 }

// NodesByPort returns the nodes that have a port with a MAC, each once, as of
// the newest pull of Ironic's ports.
func (v View) NodesByPort(mac string) []string {
	var nodes []string
	for id := range v.data.ports.denied.Owners(mac) {
		if port, ok := v.data.ports.byID.Get([]byte(id)); ok && !slices.Contains(nodes, port.Node) {
			nodes = append(nodes, port.Node)
		}
	}
	return nodes
}
