package introspection

import (
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of what discovery records. Any client that reaches the API's port may invent
// machines, and what it sends stays until an operator acts: starts or reapplies an
// introspection of the node, or deletes it. Since log version 3.
const (
	// MaxDiscovered is the greatest length of the documents of discovered machines together,
	// compressed, and MaxDiscoveredOfSource what one source may have of it once half is
	// taken: an eighth. Until then a site behind one network, of IPv6 or a NAT, has it.
	MaxDiscovered         = 512 << 20
	MaxDiscoveredOfSource = MaxDiscovered / 8
	// discoveredRecord is what a record counts in addition to its documents.
	discoveredRecord = 4 << 10

	maxSource = 64 // bytes of a source's name
)

// SourceUnknown names the network of a machine of which no network is known.
const SourceUnknown = "unknown"

// allSources is the key of the sum of all sources, which names none of them.
const allSources = "all"

// Discovery says of a record that discovery made it, and no operator has acted since.
type Discovery struct {
	Source string `cbor:"1,keyasint"`           // the network that the machine called from
	Bytes  int    `cbor:"2,keyasint,omitempty"` // what the record and its documents take
}

// weighed returns the record with what it takes. brought is the document that comes with the entry.
func weighed(t Txn, r Record, brought blobs.Packed) Record {
	if r.Discovery.Source == "" {
		return r
	}
	r.Discovery.Bytes = discoveredRecord
	for _, hash := range r.Documents() {
		r.Discovery.Bytes += documentBytes(t, hash, brought)
	}
	return r
}

// documentBytes is what a document takes, or will once it is stored.
func documentBytes(t Txn, hash blobs.Hash, brought blobs.Packed) int {
	if blob, stored := t.Blobs.Get(hash); stored || hash != brought.Hash {
		return len(blob.Data)
	}
	return len(brought.Data)
}

// countDiscovered adds to what discovery has recorded, or takes away.
func (n *nodes) countDiscovered(d Discovery, sign int) {
	if d.Source == "" {
		return
	}
	for _, key := range [...]string{allSources, d.Source} {
		used, _ := n.discovered.Get([]byte(key))
		if used += sign * d.Bytes; used == 0 {
			n.discovered.Drop([]byte(key))
			continue
		}
		n.discovered.Put([]byte(key), used)
	}
}

// discoveredRoom refuses more bytes of a source than discovery may record; source is "" where
// discovery did not make the record.
func discoveredRoom(t Txn, source string, bytes int) entry.Result {
	if source == "" {
		return entry.Done()
	}
	ofSource, _ := t.nodes.discovered.Get([]byte(source))
	ofAll, _ := t.nodes.discovered.Get([]byte(allSources))
	pressed := ofAll+bytes > MaxDiscovered/2
	if pressed && ofSource+bytes > MaxDiscoveredOfSource || ofAll+bytes > MaxDiscovered {
		return entry.Refuse(entry.QueueFull,
			"discovery keeps at most %d MiB, and once half is taken %d MiB of one source's machines; reprocess the data of "+
				"nodes that it made and you know ('trivet introspection reprocess'), delete the others in Ironic, then try again",
			MaxDiscovered>>20, MaxDiscoveredOfSource>>20)
	}
	return entry.Done()
}

func checkDiscovered(t Txn, p *valid.Problems) {
	var found nodes
	for _, r := range t.nodes.records.All() {
		found.countDiscovered(r.Discovery, 1)
		p.Want(r.Discovery == weighed(t, r, blobs.Packed{}).Discovery, "node %s takes %d bytes, counted are %d", r.Node,
			weighed(t, r, blobs.Packed{}).Discovery.Bytes, r.Discovery.Bytes)
	}
	p.Want(found.discovered.Size() == t.nodes.discovered.Size(), "discovery has %d sources, counted are %d",
		found.discovered.Size(), t.nodes.discovered.Size())
	for key, used := range found.discovered.All() {
		counted, _ := t.nodes.discovered.Get(key)
		p.Want(used == counted, "discovery has %d bytes of %s, counted are %d", used, key, counted)
	}
}
