package introspection

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/macset"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of records.
const (
	// MaxNodes is the greatest number of records.
	MaxNodes = 100_000
	// MaxTime is the longest time an introspection may be given.
	MaxTime = 7 * 24 * time.Hour

	// MaxErrorText is the greatest length of an error or of an answer's message, in bytes.
	MaxErrorText = 16 << 10
	// MaxAttributes is the greatest number of MACs, and of BMC addresses.
	MaxAttributes = 128
)

// Record is the introspection of one node.
type Record struct {
	Node  string    `cbor:"1,keyasint"` // UUID in lower case
	State NodeState `cbor:"2,keyasint"`
	// ManageBoot says that Trivet set the boot device and the power.
	ManageBoot bool   `cbor:"3,keyasint,omitempty"`
	Error      string `cbor:"4,keyasint,omitempty"` // why, in NodeError
	Times
	// Attributes identify the node's callback; they vanish with its end.
	Attributes Attributes `cbor:"9,keyasint"`
	// Unprocessed is the callback's document, Processed what became of it.
	Unprocessed blobs.Hash `cbor:"10,keyasint,omitzero"`
	Processed   blobs.Hash `cbor:"11,keyasint,omitzero"`
	// Delivered is the callback whose processing began, or that was refused: a
	// repeat joins it (promise 5). Once the record has ended it has an answer.
	Delivered Delivery `cbor:"12,keyasint,omitzero"`
	// Begun is the token of the entry that made the record. Requests that were
	// queued before it belong to an earlier introspection and move nothing.
	Begun fencing.Token `cbor:"13,keyasint"`
	// Logs says where the ramdisk's logs are; zero: they were not kept. Since log
	// version 3.
	Logs RamdiskLogs `cbor:"17,keyasint,omitzero"`
	// Earlier is what the ramdisk sent at the introspection before: what changed
	// since is asked of both. An introspection that brings no document leaves it.
	// Since log version 3.
	Earlier blobs.Hash `cbor:"18,keyasint,omitzero"`
	// Finding is what kept the machine from coming up, of an introspection that ended since its
	// time was over. Since log version 3.
	Finding entry.Finding `cbor:"19,keyasint,omitzero"`
	// Discovery is zero unless discovery made the record. Since log version 3.
	Discovery Discovery `cbor:"20,keyasint,omitzero"`
}

// Times are when an introspection began and ended. In the log they stand among the keys of
// its record.
type Times struct {
	// Wall clocks, Unix ms; for display and the order of lists. FinishedMillis
	// is 0 until the node is finished or failed; reapplying keeps it.
	StartedMillis  int64 `cbor:"5,keyasint,omitempty"`
	FinishedMillis int64 `cbor:"6,keyasint,omitempty"`
	// Cluster times. Deadline counts while the state is active.
	Started  entry.Time `cbor:"7,keyasint,omitempty"`
	Deadline entry.Time `cbor:"8,keyasint,omitempty"`
	// Finished is the cluster time of FinishedMillis; of an imported record it is
	// that of the import.
	Finished entry.Time `cbor:"14,keyasint,omitempty"`
	// StartedBeyond and FinishedBeyond are the microseconds beyond the wall clocks'
	// milliseconds: those of an imported record, 0 in all others. Lists are not
	// ordered by them. Since log version 2.
	StartedBeyond  uint16 `cbor:"15,keyasint,omitempty"`
	FinishedBeyond uint16 `cbor:"16,keyasint,omitempty"`
}

// Attributes are what a node is looked up by. Slices are shared.
type Attributes struct {
	MACs []string `cbor:"1,keyasint,omitempty"` // lower case, with colons
	BMC  []string `cbor:"2,keyasint,omitempty"` // addresses, as text
}

func (a Attributes) validate() error {
	if len(a.MACs) > MaxAttributes || len(a.BMC) > MaxAttributes {
		return fmt.Errorf("more than %d MACs or BMC addresses", MaxAttributes)
	}
	for i, mac := range a.MACs {
		if !valid.MAC(mac) || slices.Contains(a.MACs[:i], mac) {
			return fmt.Errorf("%q is not a MAC in lower case, or is there twice", mac)
		}
	}
	for i, address := range a.BMC {
		if valid.Length("", address, 2, valid.MaxIP) != nil || valid.Chars("", address, valid.IPChar) != nil ||
			slices.Contains(a.BMC[:i], address) {
			return fmt.Errorf("%q is not an IP address, or is there twice", address)
		}
	}
	return nil
}

// nodes holds the records and the orders in which they are asked for.
type nodes struct {
	records     table.Of[Record]     // by node
	byStart     table.Of[table.None] // StartedMillis, node: lists, newest first
	byDeadline  table.Of[table.None] // Deadline, node; active ones only
	byEnd       table.Of[table.None] // Finished, node; those not active
	byAttribute table.Of[table.None] // see attributeKey
	byDelivery  table.Of[table.None] // Delivered.Document, node
	inspected   table.Of[Inspected]  // by node
	discovered  table.Of[int]        // bytes of what discovery recorded, by source
	whitelist   macset.Set           // MACs of nodes that are expected to boot, owned by nodes, byIronic and byPort
	booting     int                  // how many of those nodes have records; some have no MAC
}

// Kinds of attributes in the index.
const (
	attributeMAC = 'm'
	attributeBMC = 'b'
)

// attributeKey orders by kind, value, node. A zero byte ends the value.
func attributeKey(kind byte, value, node string) []byte {
	key := append([]byte{kind}, value...)
	return append(append(key, 0), node...)
}

func (r Record) startKey() []byte { return table.LongKey(uint64(r.StartedMillis), r.Node) }

func (r Record) deadlineKey() []byte { return table.LongKey(uint64(r.Deadline), r.Node) }

func (r Record) endKey() []byte { return table.LongKey(uint64(r.Finished), r.Node) }

// deliveryKey is nil for a record without a delivery.
func (r Record) deliveryKey() []byte {
	if r.Delivered.Document.IsZero() {
		return nil
	}
	return slices.Concat(r.Delivered.Document[:], []byte(r.Node))
}

func (r Record) attributeKeys() [][]byte {
	var keys [][]byte
	for _, mac := range r.Attributes.MACs {
		keys = append(keys, attributeKey(attributeMAC, mac, r.Node))
	}
	for _, address := range r.Attributes.BMC {
		keys = append(keys, attributeKey(attributeBMC, address, r.Node))
	}
	return keys
}

// reindex keeps the orders when one record takes the place of another; the zero
// Record is none. Most steps of an introspection change few of its places.
func (n *nodes) reindex(old, r Record) {
	n.countDiscovered(old.Discovery, -1)
	n.countDiscovered(r.Discovery, 1)
	before, after := old.places(), r.places()
	for i, order := range [...]*table.Of[table.None]{&n.byStart, &n.byDeadline, &n.byEnd, &n.byDelivery} {
		if bytes.Equal(before[i], after[i]) {
			continue
		}
		if before[i] != nil {
			order.Drop(before[i])
		}
		if after[i] != nil {
			order.Put(after[i], table.None{})
		}
	}
	if slices.Equal(old.Attributes.MACs, r.Attributes.MACs) && slices.Equal(old.Attributes.BMC, r.Attributes.BMC) {
		return
	}
	n.byAttribute.DropAll(old.attributeKeys())
	for _, key := range r.attributeKeys() {
		n.byAttribute.Put(key, table.None{})
	}
}

// places are the keys of a record in the orders by start, deadline, end and delivery; nil
// where it has no place.
func (r Record) places() (keys [4][]byte) {
	if r.Node == "" {
		return keys
	}
	keys[0], keys[3] = r.startKey(), r.deliveryKey()
	if r.State.Active() {
		keys[1] = r.deadlineKey()
	} else {
		keys[2] = r.endKey()
	}
	return keys
}

// putRecord stores a record in the place of an older one, with the document
// that this entry brings if the record refers to that.
func (t Txn) putRecord(r Record, brought blobs.Packed) {
	old, _ := t.nodes.records.Get([]byte(r.Node))
	r = weighed(t, r, brought)
	t.nodes.records.Put([]byte(r.Node), r)
	t.replaced(old, r, brought)
}

// replaced keeps everything that follows from the records when one takes the
// place of another; the zero Record is none. Documents are counted before they
// are let go, so that one that changes its place stays.
func (t Txn) replaced(old, r Record, brought blobs.Packed) {
	were, are := old.Documents(), r.Documents()
	for i := range are {
		if are[i] != were[i] {
			t.Blobs.Ref(are[i], brought)
		}
	}
	for i := range were {
		if were[i] != are[i] {
			t.Blobs.Unref(were[i])
		}
	}
	t.nodes.reindex(old, r)
	allow(t, old, r, t.Position.Index)
}

// loadRecord restores one record from a snapshot, whose blobs know their
// references.
func loadRecord(t Txn, r Record) {
	t.nodes.records.Put([]byte(r.Node), r)
	t.nodes.reindex(Record{}, r)
	allow(t, Record{}, r, 0)
}

// Documents returns the documents that the record refers to; zero hashes are none.
func (r Record) Documents() [3]blobs.Hash {
	return [...]blobs.Hash{r.Unprocessed, r.Processed, r.Earlier}
}

// saved returns the record with the documents that are given in the place of
// its own.
func (r Record) saved(unprocessed blobs.Hash, processed blobs.Packed) Record {
	if !unprocessed.IsZero() {
		r.Unprocessed = unprocessed
	}
	if !processed.IsZero() {
		r.Processed = processed.Hash
	}
	return r
}

// move takes a record to its next state: what the event means for times, error,
// attributes and the callback's answer happens in the same step (the original does it in two, so
// that a node is seen finished and not finished).
func (t Txn) move(r Record, event Event, next NodeState, why string) Record {
	from := r.State
	r.State = next
	switch {
	case next == NodeError && from == NodeError && event != EventError:
		return r // aborting a failed node leaves everything as it was
	case next == NodeError:
		r = t.ended(r, why, Answer{Status: statusBadRequest, Message: why})
	case next == NodeFinished:
		r = t.ended(r, "", Answer{Status: statusOK})
	}
	return r
}

// ended is what every end does to a record. The answer is for a callback that
// has none yet.
func (t Txn) ended(r Record, why string, a Answer) Record {
	r.Error = why
	r.Finished, r.FinishedMillis, r.FinishedBeyond = t.Now(), t.Wall(), 0
	r.Attributes = Attributes{}
	r.Delivered = r.Delivered.answered(a)
	r.Finding = entry.Finding{}
	if why == textTimeout && t.Stopped != nil {
		r.Finding = t.Stopped(r.Node, r.Begun)
	}
	return r
}

// nodeOf reads the node that an attribute's key ends with.
func nodeOf(key []byte) string { return string(key[bytes.IndexByte(key, 0)+1:]) }

// recordStep tells how a node's record changed, what caused it, and which peer did
// it. The text of an error is cut; the record has the whole.
func (t Txn) recordStep(old, r Record, cause Event, peer string) {
	if old.State == r.State && old.Error == r.Error && old.Finished == r.Finished && cause != EventStart &&
		cause != EventReapply {
		return
	}
	from := ""
	if old.State != NodeAbsent {
		from = old.State.String()
	}
	why, found := "", entry.Finding{}
	if r.State == NodeError {
		why, found = r.Error, r.Finding
	}
	t.RecordEvent(eventring.Event{Topic: eventring.TopicIntrospection, Action: r.State.String(), Peer: peer, Node: r.Node,
		Fields: eventring.Fields("cause", cause.String(), "from", from, "error", why, "finding", found.Code,
			"found", found.Text)})
}

// recordNode records an event about a node's record as a whole.
func (t Txn) recordNode(action string, r Record) {
	t.RecordEvent(eventring.Event{Topic: eventring.TopicIntrospection, Action: action, Peer: t.Proposer(), Node: r.Node,
		Fields: eventring.Fields("state", r.State.String())})
}
