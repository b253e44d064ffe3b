package relays

import (
	"iter"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Relay returns a document that is handed on to Ironic, or was.
func (s *Tables) Relay(sequence fencing.Token) (Relay, bool) {
	return s.bySequence.Get(table.TokenKey(sequence))
}

// SameRelays says that two views have the same relays. It may fail to say so.
func SameRelays(a, b *Tables) bool { return a.bySequence.Same(b.bySequence) }

// Relays iterates over all of them, the newest first.
func (s *Tables) Relays() iter.Seq[Relay] { return table.Values(s.bySequence.Descending(nil)) }

// PendingRelays iterates over those that Ironic has not taken yet, the oldest
// first. It costs what it yields.
func (s *Tables) PendingRelays() iter.Seq[Relay] {
	return table.Named(s.pending.All(), 0, s.bySequence)
}

// RelaysPending returns how many those are.
func (s *Tables) RelaysPending() int { return s.pending.Size() }

// RelaysFailed returns how many of those that are kept Ironic did not take.
func (s *Tables) RelaysFailed() (n int) {
	for _, r := range s.bySequence.All() {
		if r.State == Failed {
			n++
		}
	}
	return n
}

// RelayOf returns the newest relay of a node.
func (s *Tables) RelayOf(node string) (Relay, bool) {
	return s.newestRelay(s.byNode, []byte(node))
}

// TakenRelayOf returns the newest relay of a node that Ironic has taken. Any other may be of a
// stranger, who knows a MAC of the machine.
func (s *Tables) TakenRelayOf(node string) (newest Relay, ok bool) {
	for r := range s.RelaysOf(node) {
		if r.State == Taken {
			newest, ok = r, true
		}
	}
	return newest, ok
}

// RelaysOf iterates over a node's relays that are kept, the oldest first.
func (s *Tables) RelaysOf(node string) iter.Seq[Relay] {
	return table.Named(s.byNode.Under([]byte(node)), len(node), s.bySequence)
}
