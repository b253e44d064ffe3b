package fsm

import (
	"iter"
	"slices"

	"github.com/trivet-ha/trivet/fsm/table"
)

// Ports iterates over the ports that Ironic knows, in the order of their IDs.
func (v View) Ports() iter.Seq[Port] { return table.Values(v.data.ports.byID.All()) }

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
