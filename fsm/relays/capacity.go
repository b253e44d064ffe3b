package relays

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Shares of the room for relays. Any client that reaches the API's port may post
// documents, so no single source, and no number of sources that name no known node,
// may take the room of the machines that Ironic waits for.
const (
	// MaxOfSource and MaxBytesOfSource bound what one source may have stored of nodes that are
	// not known: an eighth. Of nodes that Ironic's ports name it bounds what waits, once half of the
	// room is taken: until then a site behind one network, of IPv6 or a NAT, has it. Before log
	// version 3 it bounds both together, always.
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

// logVersionTakenStay is the log version from which on what Ironic did not take makes room first,
// and the newest document of a node that it took makes room for no other of that node.
const logVersionTakenStay = 3

// logVersionSites is the log version from which on documents of known nodes count in the share of
// their source once half of the room is taken, and others count in it by themselves.
const logVersionSites = 3

// relayShare is a part of the room for relays. Every relay belongs to several.
type relayShare struct {
	key  string // of the tables; no key is the beginning of another's
	name string // for a refusal
	most relaySum
	of   shareOf
}

// shareOf says whose a share is, where that matters.
type shareOf uint8

const (
	ofOthers  shareOf = iota
	ofNode            // of which a document may stay
	ofSource          // with all that it sent
	ofUnknown         // of a source, without what it sent of known nodes
)

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
	shares := []relayShare{{key: "all", name: "all sources", most: relaySum{MaxRelays, MaxBytes}}}
	if r.Source != "" {
		shares = append(shares, relayShare{key: "source " + r.Source + "\x00", name: r.Source,
			most: relaySum{MaxOfSource, MaxBytesOfSource}, of: ofSource})
	}
	if r.Node == "" {
		if r.Source != "" {
			shares = append(shares, relayShare{key: "unknown of " + r.Source + "\x00", name: r.Source,
				most: relaySum{MaxOfSource, MaxBytesOfSource}, of: ofUnknown})
		}
		return append(shares, relayShare{key: "unknown\x00", name: "nodes that Ironic's ports do not name",
			most: relaySum{MaxUnknown, MaxBytesUnknown}})
	}
	return append(shares, relayShare{key: "node " + r.Node, name: "node " + r.Node,
		most: relaySum{MaxOfNode, MaxBytesOfNode}, of: ofNode})
}

// bounding returns those shares of r that bound it, of so many bytes.
func (t Txn) bounding(r Relay, bytes int) []relayShare {
	all, _ := t.used.Get([]byte("all"))
	all.pending.add(1, bytes)
	pressed := all.pending.exceeds(relaySum{MaxRelays / 2, MaxBytes / 2})
	return slices.DeleteFunc(r.shares(), func(s relayShare) bool {
		sites := t.Version >= logVersionSites
		return s.of == ofUnknown && !sites || s.of == ofSource && sites && (r.Node == "" || !pressed)
	})
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
		if r.State == Failed && in {
			t.failed.Put(s.member(r.Sequence), table.None{})
		} else {
			t.failed.Drop(s.member(r.Sequence))
		}
		if use.all.documents == 0 {
			t.used.Drop([]byte(s.key))
			continue
		}
		t.used.Put([]byte(s.key), use)
	}
}

// relayRoom refuses a relay for which there is no room even if all that have
// ended and may make room went. bytes is what its document takes.
func (t Txn) relayRoom(r Relay, bytes int) entry.Result {
	for _, s := range t.bounding(r, bytes) {
		use, _ := t.used.Get([]byte(s.key))
		pending, most := use.pending, s.most
		if s.of == ofNode {
			most.add(t.stays(r.Node))
		}
		if use.pending.add(1, bytes); use.pending.exceeds(most) {
			return entry.Refuse(entry.QueueFull,
				"%d documents (%d MiB) of %s wait for Ironic, at most %d (%d MiB) may; try again later",
				pending.documents, pending.bytes>>20, s.name, most.documents, most.bytes>>20)
		}
	}
	return entry.Done()
}

// stays is what the document takes from a node's share that Ironic took last, less than zero.
func (t Txn) stays(node string) (documents, bytes int) {
	if taken, ok := t.TakenRelayOf(node); ok && t.Version >= logVersionTakenStay {
		blob, _ := t.Blobs.Get(taken.Document)
		return -1, -len(blob.Data)
	}
	return 0, 0
}

// makeRoom drops ended relays of each share, those that failed first and the oldest of them
// first, until one more fits; relayRoom has said that it will.
func (t Txn) makeRoom(r Relay, bytes int) {
	for _, s := range t.bounding(r, bytes) {
		if t.Version >= logVersionTakenStay {
			t.dropEnded(s, t.failed, bytes)
		}
		t.dropEnded(s, t.ended, bytes)
	}
}

// dropEnded drops the oldest relays of an order until so many bytes fit into a share.
func (t Txn) dropEnded(s relayShare, order table.Of[table.None], bytes int) {
	for key := range order.Under([]byte(s.key)) {
		use, _ := t.used.Get([]byte(s.key))
		if use.all.add(1, bytes); !use.all.exceeds(s.most) {
			return
		}
		t.expireRelay(table.TailToken(key))
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
