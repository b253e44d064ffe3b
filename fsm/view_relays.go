package fsm

import (
	"iter"
	"slices"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Relay returns a document that is handed on to Ironic, or was.
func (v View) Relay(sequence fencing.Token) (Relay, bool) {
	return v.d.relays.bySequence.get(tokenKey(sequence))
}

// Relays iterates over all of them, the newest first.
func (v View) Relays() iter.Seq[Relay] {
	return func(yield func(Relay) bool) {
		for _, r := range v.d.relays.bySequence.descending(nil) {
			if !yield(r) {
				return
			}
		}
	}
}

// PendingRelays iterates over those that Ironic has not taken yet, the oldest
// first. It costs what it yields.
func (v View) PendingRelays() iter.Seq[Relay] {
	return func(yield func(Relay) bool) {
		for key := range v.d.relays.pending.all() {
			r, _ := v.d.relays.bySequence.get(key)
			if !yield(r) {
				return
			}
		}
	}
}

// RelaysPending returns how many those are.
func (v View) RelaysPending() int { return v.d.relays.pending.size() }

// RelaysFailed returns how many of those that are kept Ironic did not take.
func (v View) RelaysFailed() (n int) {
	for _, r := range v.d.relays.bySequence.all() {
		if r.State == RelayFailed {
			n++
		}
	}
	return n
}

// RelayRepeated finds the relay that a document repeats, were it accepted now.
func (v View) RelayRepeated(document Hash) (Relay, bool) { return v.d.repeated(document, v.Now()) }

// RelayRoom returns why there is no room for a document, nil if there is. A
// refusal that the state foresees needs no entry of the log.
func (v View) RelayRoom(c AcceptRelay) error {
	return v.d.relayRoom(Relay{Node: c.Node, Source: c.Source}, v.d.relayBytes(c.Document)).Err()
}

// RelayOf returns the newest relay of a node.
func (v View) RelayOf(node string) (Relay, bool) {
	return v.d.newestRelay(v.d.relays.byNode, []byte(node))
}

// NodesByPort returns the nodes that have a port with a MAC, each once, as of
// the newest pull of Ironic's ports.
func (v View) NodesByPort(mac string) []string {
	var nodes []string
	for id := range v.d.ports.denied.owners(mac) {
		if port, ok := v.d.ports.byID.get([]byte(id)); ok && !slices.Contains(nodes, port.Node) {
			nodes = append(nodes, port.Node)
		}
	}
	return nodes
}
