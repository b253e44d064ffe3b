package fsm

import (
	"encoding/binary"
	"iter"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Record returns the introspection of a node.
func (v View) Record(node string) (Record, bool) { return v.data.nodes.records.Get([]byte(node)) }

// Nodes returns how many nodes have a record.
func (v View) Nodes() int { return v.data.nodes.records.Size() }

// Records iterates over all records, newest first: by (StartedMillis, Node)
// descending, as the API lists them.
func (v View) Records() iter.Seq[Record] { return v.newest(nil) }

// RecordsAfter iterates over the records that a list shows after the given
// one, a page's marker. It costs what it yields.
func (v View) RecordsAfter(marker Record) iter.Seq[Record] { return v.newest(marker.startKey()) }

func (v View) newest(bound []byte) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for key := range v.data.nodes.byStart.Descending(bound) {
			r, _ := v.data.nodes.records.Get(key[8:])
			if !yield(r) {
				return
			}
		}
	}
}

// Overdue iterates over the active records whose deadline is not after cluster
// time, the longest overdue first. It costs what it yields.
func (v View) Overdue() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for key := range v.data.nodes.byDeadline.All() {
			if Time(binary.BigEndian.Uint64(key)) > v.Now() {
				return
			}
			r, _ := v.data.nodes.records.Get(key[8:])
			if !yield(r) {
				return
			}
		}
	}
}

// EndedBefore iterates over the records of introspections that ended before a
// moment of cluster time, the longest ended first: a record that reapplies is
// not among them. It costs what it yields.
func (v View) EndedBefore(t Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for key := range v.data.nodes.byEnd.All() {
			if Time(binary.BigEndian.Uint64(key)) >= t {
				return
			}
			r, _ := v.data.nodes.records.Get(key[8:])
			if !yield(r) {
				return
			}
		}
	}
}

// NodesByDelivery returns the nodes whose record's Delivered has the document,
// in the order of their names: a callback that is repeated after its node
// ended, when nothing else leads to it, is found by this.
func (v View) NodesByDelivery(document blobs.Hash) []string {
	var nodes []string
	for key := range v.data.nodes.byDelivery.Under(document[:]) {
		nodes = append(nodes, string(key[len(document):]))
	}
	return nodes
}

// NodesByMAC returns the nodes under introspection that have a MAC.
func (v View) NodesByMAC(mac string) []string { return v.nodesBy(attributeMAC, mac) }

// NodesByBMC returns the nodes under introspection that have a BMC address.
func (v View) NodesByBMC(address string) []string { return v.nodesBy(attributeBMC, address) }

func (v View) nodesBy(kind byte, value string) []string {
	var nodes []string
	for key := range v.data.nodes.byAttribute.Under(attributeKey(kind, value, "")) {
		nodes = append(nodes, nodeOf(key))
	}
	return nodes
}

// QueuedRequest returns a request that is queued or claimed.
func (v View) QueuedRequest(sequence fencing.Token) (QueuedRequest, bool) {
	return v.data.queue.requests.Get(table.TokenKey(sequence))
}

// Queue iterates over the requests, oldest first.
func (v View) Queue() iter.Seq[QueuedRequest] {
	return func(yield func(QueuedRequest) bool) {
		for _, r := range v.data.queue.requests.All() {
			if !yield(r) {
				return
			}
		}
	}
}

// QueueOf returns the requests of one node in the order they will be done.
func (v View) QueueOf(node string) []QueuedRequest {
	var out []QueuedRequest
	for key := range v.data.queue.byNode.Under([]byte(node)) {
		if r, ok := v.QueuedRequest(table.TailToken(key)); ok {
			out = append(out, r)
		}
	}
	return out
}

// QueueLength returns how many requests are queued or claimed.
func (v View) QueueLength() int { return v.data.queue.requests.Size() }

// Ready iterates over the requests that could be claimed now, at most one a
// node, oldest first. It costs what it yields.
func (v View) Ready() iter.Seq[QueuedRequest] {
	return func(yield func(QueuedRequest) bool) {
		for key := range v.data.queue.ready.All() {
			r, _ := v.data.queue.requests.Get(key)
			if !yield(r) {
				return
			}
		}
	}
}

// Claimable returns how many requests Ready yields.
func (v View) Claimable() int { return v.data.queue.ready.Size() }

// Claim returns a claim that is still held.
func (v View) Claim(h Hold) (Claim, bool) { return v.data.queue.claim(h) }

// ClaimOf returns the claim of a node.
func (v View) ClaimOf(node string) (Claim, bool) {
	request, ok := v.data.queue.claimOf.Get([]byte(node))
	if !ok {
		return Claim{}, false
	}
	return v.data.queue.claims.Get(table.TokenKey(request))
}

// Claims returns the live claims in the order of their requests.
func (v View) Claims() []Claim { return table.List(v.data.queue.claims.All()) }

// Blob returns a stored document.
func (v View) Blob(hash blobs.Hash) (blobs.Blob, bool) { return v.data.blobs.Get(hash) }
