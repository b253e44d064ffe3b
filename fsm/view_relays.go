package fsm

import (
	"iter"
	"slices"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Relay returns a document that is handed on to Ironic, or was.
func (v View) Relay(sequence fencing.Token) (Relay, bool) {
	return v.data.relays.bySequence.Get(table.TokenKey(sequence))
}

// Relays iterates over all of them, the newest first.
func (v View) Relays() iter.Seq[Relay] {
	return func(yield func(Relay) bool) {
		for _, r := range v.data.relays.bySequence.Descending(nil) {
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
		for key := range v.data.relays.pending.All() {
			r, _ := v.data.relays.bySequence.Get(key)
			if !yield(r) {
				return
			}
		}
	}
}

// RelaysPending returns how many those are.
func (v View) RelaysPending() int { return v.data.relays.pending.Size() }

// RelaysFailed returns how many of those that are kept Ironic did not take.
func (v View) RelaysFailed() (n int) {
	for _, r := range v.data.relays.bySequence.All() {
		if r.State == RelayFailed {
			n++
		}
	}
	return n
}

// RelayRepeated finds the relay that a document repeats, were it accepted now.
func (v View) RelayRepeated(document blobs.Hash) (Relay, bool) {
	return v.data.repeated(document, v.Now())
}

// RelayRoom returns why there is no room for a document, nil if there is. A
// refusal that the state foresees needs no entry of the log.
func (v View) RelayRoom(c AcceptRelay) error {
	return v.data.relayRoom(Relay{Node: c.Node, Source: c.Source}, v.data.relayBytes(c.Document)).Err()
}

// RelayOf returns the newest relay of a node.
func (v View) RelayOf(node string) (Relay, bool) {
	return v.data.newestRelay(v.data.relays.byNode, []byte(node))
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
