package relays

import (
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Shares of the room for relays. Any client that reaches the API's port may post
// documents, so no single source, and no number of sources that name no known node,
// may take the room of the machines that Ironic waits for.
const (
	// MaxOfSource and MaxBytesOfSource bound what one source may have
	// stored: an eighth.
	MaxOfSource      = MaxRelays / 8
	MaxBytesOfSource = MaxBytes / 8
	// MaxUnknown and MaxBytesUnknown bound the documents whose node is
	// not known, of all sources: a half. The other half is reserved for nodes that
	// Ironic's ports name.
	MaxUnknown      = MaxRelays / 2
	MaxBytesUnknown = MaxBytes / 2
	// MaxOfNode and MaxBytesOfNode bound the documents of one node: a
	// stranger may know the MAC of a machine.
	MaxOfNode      = 16
	MaxBytesOfNode = 8 << 20

	maxRelaySource = 64 // bytes of a source's name
)

// relayShare is a part of the room for relays. Every relay belongs to several.
type relayShare struct {
	key  string // of the tables; no key is the beginning of another's
	name string // for a refusal
	most relaySum
}

// relaySum is how much documents take.
type relaySum struct{ documents, bytes int }

func (s *relaySum) add(documents, bytes int) {
	s.documents += documents
	s.bytes += bytes
}

func (s relaySum) exceeds(most relaySum) bool {
	return s.documents > most.documents || s.bytes > most.bytes
}

// relayUse is what a share holds: all relays, and those of them that are pending.
type relayUse struct{ all, pending relaySum }

// shares returns the parts of the room that r takes.
func (r Relay) shares() []relayShare {
	shares := []relayShare{{"all", "all sources", relaySum{MaxRelays, MaxBytes}}}
	if r.Source != "" {
		shares = append(shares, relayShare{"source " + r.Source + "\x00", r.Source, relaySum{MaxOfSource, MaxBytesOfSource}})
	}
	if r.Node == "" {
		return append(shares, relayShare{"unknown", "nodes that Ironic's ports do not name",
			relaySum{MaxUnknown, MaxBytesUnknown}})
	}
	return append(shares, relayShare{"node " + r.Node, "node " + r.Node, relaySum{MaxOfNode, MaxBytesOfNode}})
}

// member is the key of a relay among those of the share that have ended.
func (s relayShare) member(sequence fencing.Token) []byte {
	return append([]byte(s.key), table.TokenKey(sequence)...)
}

// countRelay adds a relay to its shares, or takes it away; its document is
// stored.
func (t Txn) countRelay(r Relay, in bool) {
	blob, _ := t.Blobs.Get(r.Document)
	documents, bytes := 1, len(blob.Data)
	if !in {
		documents, bytes = -documents, -bytes
	}
	for _, s := range r.shares() {
		use, _ := t.used.Get([]byte(s.key))
		use.all.add(documents, bytes)
		switch {
		case r.State == Pending:
			use.pending.add(documents, bytes)
		case in:
			t.ended.Put(s.member(r.Sequence), table.None{})
		default:
			t.ended.Drop(s.member(r.Sequence))
		}
		if use.all.documents == 0 {
			t.used.Drop([]byte(s.key))
			continue
		}
		t.used.Put([]byte(s.key), use)
	}
}

// relayRoom refuses a relay for which there is no room even if all that have
// ended went. bytes is what its document takes.
func (t Txn) relayRoom(r Relay, bytes int) entry.Result {
	for _, s := range r.shares() {
		use, _ := t.used.Get([]byte(s.key))
		pending := use.pending
		if use.pending.add(1, bytes); use.pending.exceeds(s.most) {
			return entry.Refuse(entry.QueueFull,
				"%d documents (%d MiB) of %s wait for Ironic, at most %d (%d MiB) may; try again later",
				pending.documents, pending.bytes>>20, s.name, s.most.documents, s.most.bytes>>20)
		}
	}
	return entry.Done()
}

// makeRoom drops the oldest ended relays of each share until one more fits;
// relayRoom has said that it will.
func (t Txn) makeRoom(r Relay, bytes int) {
	for _, s := range r.shares() {
		for key := range t.ended.Under([]byte(s.key)) {
			use, _ := t.used.Get([]byte(s.key))
			if use.all.add(1, bytes); !use.all.exceeds(s.most) {
				break
			}
			t.expireRelay(table.TailToken(key))
		}
	}
}

// relayBytes is what a document takes: perhaps it is stored as another peer
// packed it.
func (t Txn) relayBytes(document blobs.Packed) int {
	stored, _ := t.Blobs.Get(document.Hash)
	return max(len(document.Data), len(stored.Data))
}

// Room returns why there is no room for a document.
func (t Txn) Room(c Accept) entry.Result {
	return t.relayRoom(Relay{Node: c.Node, Origin: Origin{Source: c.Source}}, t.relayBytes(c.Document))
}
