package introspection

import (
	"encoding/binary"
	"iter"
	"strings"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Record returns the introspection of a node.
func (s *Tables) Record(node string) (Record, bool) { return s.nodes.records.Get([]byte(node)) }

// SameRecords says that two views have the same records. It may fail to say so.
func SameRecords(a, b *Tables) bool { return a.nodes.records.Same(b.nodes.records) }

// Nodes returns how many nodes have a record.
func (s *Tables) Nodes() int { return s.nodes.records.Size() }

// Records iterates over all records, newest first: by (StartedMillis, Node)
// descending, as the API lists them.
func (s *Tables) Records() iter.Seq[Record] {
	return table.Named(s.nodes.byStart.Descending(nil), 8, s.nodes.records)
}

// RecordsAfter iterates over the records that a list shows after the given
// one, a page's marker. It costs what it yields.
func (s *Tables) RecordsAfter(marker Record) iter.Seq[Record] {
	return table.Named(s.nodes.byStart.Descending(marker.startKey()), 8, s.nodes.records)
}

// OverdueAt iterates over the active records whose deadline is not after a moment of cluster
// time, the longest overdue first. It costs what it yields.
func (s *Tables) OverdueAt(now entry.Time) iter.Seq[Record] {
	return s.before(s.nodes.byDeadline, now+1)
}

// EndedBefore iterates over the records of introspections that ended before a
// moment of cluster time, the longest ended first: a record that reapplies is
// not among them. It costs what it yields.
func (s *Tables) EndedBefore(t entry.Time) iter.Seq[Record] { return s.before(s.nodes.byEnd, t) }

// before iterates over the records that stand in an order of times before a moment.
func (s *Tables) before(order table.Of[table.None], t entry.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for key := range order.All() {
			if entry.Time(binary.BigEndian.Uint64(key)) >= t {
				return
			}
			r, _ := s.nodes.records.Get(key[8:])
			if !yield(r) {
				return
			}
		}
	}
}

// NodesByDelivery returns the nodes whose record's Delivered has the document,
// in the order of their names: a callback that is repeated after its node
// ended, when nothing else leads to it, is found by this.
func (s *Tables) NodesByDelivery(document blobs.Hash) []string {
	var nodes []string
	for key := range s.nodes.byDelivery.Under(document[:]) {
		nodes = append(nodes, string(key[len(document):]))
	}
	return nodes
}

// NodesByMAC returns the nodes under introspection that have a MAC.
func (s *Tables) NodesByMAC(mac string) []string { return nodesBy(s, attributeMAC, mac) }

// NodesByBMC returns the nodes under introspection that have a BMC address.
func (s *Tables) NodesByBMC(address string) []string { return nodesBy(s, attributeBMC, address) }

func nodesBy(s *Tables, kind byte, value string) []string {
	var nodes []string
	for key := range s.nodes.byAttribute.Under(attributeKey(kind, value, "")) {
		nodes = append(nodes, nodeOf(key))
	}
	return nodes
}

// QueuedRequest returns a request that is queued or claimed.
func (s *Tables) QueuedRequest(sequence fencing.Token) (QueuedRequest, bool) {
	return s.queue.requests.Get(table.TokenKey(sequence))
}

// Queue iterates over the requests, oldest first.
func (s *Tables) Queue() iter.Seq[QueuedRequest] { return table.Values(s.queue.requests.All()) }

// QueueOf returns the requests of one node in the order they will be done.
func (s *Tables) QueueOf(node string) []QueuedRequest {
	var out []QueuedRequest
	for key := range s.queue.byNode.Under([]byte(node)) {
		if r, ok := s.QueuedRequest(table.TailToken(key)); ok {
			out = append(out, r)
		}
	}
	return out
}

// QueueLength returns how many requests are queued or claimed.
func (s *Tables) QueueLength() int { return s.queue.requests.Size() }

// Ready iterates over the requests that could be claimed now, at most one a
// node, oldest first. It costs what it yields.
func (s *Tables) Ready() iter.Seq[QueuedRequest] {
	return table.Named(s.queue.ready.All(), 0, s.queue.requests)
}

// Claimable returns how many requests Ready yields.
func (s *Tables) Claimable() int { return s.queue.ready.Size() }

// Claim returns a claim that is still held.
func (s *Tables) Claim(h Hold) (Claim, bool) { return s.queue.claim(h) }

// ClaimOf returns the claim of a node.
func (s *Tables) ClaimOf(node string) (Claim, bool) {
	request, ok := s.queue.claimOf.Get([]byte(node))
	if !ok {
		return Claim{}, false
	}
	return s.queue.claims.Get(table.TokenKey(request))
}

// Claims returns the live claims in the order of their requests.
func (s *Tables) Claims() []Claim { return table.List(s.queue.claims.All()) }

// AllowedMACs iterates over the whitelist, in order and each once, with the
// node, the first of several, that the MAC belongs to: nodes under
// introspection whose boot is expected, from the moment their MACs are saved, or
// Ironic has a port with them, to their end in finished or error, and nodes that
// Ironic itself inspects.
func (s *Tables) AllowedMACs() iter.Seq2[string, string] {
	return func(yield func(mac, node string) bool) {
		for mac, owner := range s.nodes.whitelist.MACs() {
			if !yield(mac, owner[strings.IndexByte(owner, ':')+1:]) { // without a mark
				return
			}
		}
	}
}

// BootingByMAC returns the nodes under introspection whose boot with a MAC is expected, which
// puts it on the whitelist.
func (s *Tables) BootingByMAC(mac string) (nodes []string) {
	for owner := range s.nodes.whitelist.Owners(mac) {
		if !strings.HasPrefix(owner, ironicMark) {
			nodes = append(nodes, strings.TrimPrefix(owner, portMark))
		}
	}
	return nodes
}

// Allowed reports whether a MAC is on the whitelist.
func (s *Tables) Allowed(mac string) bool { return s.nodes.whitelist.Has(mac) }

// AllowedCount returns how many MACs the whitelist has.
func (s *Tables) AllowedCount() int { return s.nodes.whitelist.Size() }

// AllowedChanged returns, in order and each once, the MACs that joined or left the whitelist
// after the entry at index, up to the last entry; Allowed tells where each is now. ok is false
// when this cannot be told.
func (s *Tables) AllowedChanged(index, last uint64) (macs []string, ok bool) {
	return s.nodes.whitelist.ChangedSince(index, last)
}

// Introspecting reports whether any node is expected to boot, also one of which
// no MAC is known, or one that Ironic itself inspects. Reapplying stored data
// boots nothing and does not count.
func (s *Tables) Introspecting() bool { return s.nodes.booting+s.nodes.inspected.Size() > 0 }
