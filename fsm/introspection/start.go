package introspection

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Queued is the Value of Start and Enqueue.
type Queued struct {
	// Request is the sequence of the request that does what was asked; zero if
	// nothing needs to be done.
	Request fencing.Token `cbor:"1,keyasint,omitempty"`
	// Joined says that the same had been asked before and Request is that one,
	// which may be done already: the node's record tells how it ended.
	Joined bool `cbor:"2,keyasint,omitempty"`
}

// logVersionEarlier is the log version that brought Record.Earlier: peers of an
// older one, which apply the same entries, do not know it.
const logVersionEarlier = 3

// Start begins a node's introspection as the API does: the
// earlier record of the node goes, with its documents, of which the newest that a
// ramdisk sent becomes the new record's Earlier. EventStart queues the
// work; EventEnroll and EventAdopt, of discovery, only make the record.
type Start struct {
	Node       string        `cbor:"1,keyasint"`
	Event      Event         `cbor:"2,keyasint"` // start, enroll or adopt
	ManageBoot bool          `cbor:"3,keyasint,omitempty"`
	Timeout    time.Duration `cbor:"4,keyasint"` // until the deadline
	Attributes Attributes    `cbor:"5,keyasint"`
	// Source is the network of a machine that is discovered, which has a share of what
	// discovery may record. It needs log version 3; "" is not counted.
	Source string `cbor:"6,keyasint,omitempty"`
}

// Since is the log version that a member must know to read the command.
func (c Start) Since() int { return entry.SinceField(c.Source != "", logVersionShares) }

// Validate implements Command.
func (c Start) Validate() error {
	if c.Event != EventStart && c.Event != EventEnroll && c.Event != EventAdopt {
		return fmt.Errorf("event %v does not start an introspection", c.Event)
	}
	if err := validTimeout(c.Timeout); err != nil {
		return err
	}
	if err := valid.Node(c.Node); err != nil {
		return err
	}
	if c.Source != "" && (c.Event != EventEnroll || c.Source == allSources) {
		return fmt.Errorf("source %q of event %v", c.Source, c.Event)
	}
	return errors.Join(c.Attributes.validate(), valid.Length("source", c.Source, 0, maxSource),
		valid.Chars("source", c.Source, func(b byte) bool { return b > ' ' && b < 0x7f }))
}

func validTimeout(d time.Duration) error {
	if d <= 0 || d > MaxTime {
		return fmt.Errorf("an introspection may take up to %v, not %v", MaxTime, d)
	}
	return nil
}

// Apply implements entry.Change.
func (c Start) Apply(t Txn) entry.Result {
	old, known := t.nodes.records.Get([]byte(c.Node))
	out := Transition(old.State, c.Event, FromAPI)
	switch {
	case out.Verdict != Move:
		return illegal(old.State, c.Event)
	case !known && t.nodes.records.Size() >= MaxNodes:
		return entry.Refuse(entry.TableFull, "%d nodes are recorded, which is the most", MaxNodes)
	case c.Event == EventStart && queueFull(t, c.Event):
		return full(t)
	}
	if res := discoveredRoom(t, c.Source, discoveredRecord); res.Code != entry.OK {
		return res
	}
	rec := Record{
		Node: c.Node, State: out.Next, ManageBoot: c.ManageBoot,
		Times:      Times{StartedMillis: t.Header.WallMillis, Started: t.Now(), Deadline: t.Now().Add(c.Timeout)},
		Attributes: c.Attributes, Begun: t.Token, Discovery: Discovery{Source: c.Source},
	}
	if t.Version >= logVersionEarlier {
		rec.Earlier = cmp.Or(old.Unprocessed, old.Earlier)
	}
	t.putRecord(rec, blobs.Packed{})
	t.recordStep(old, rec, c.Event, t.Proposer())
	if c.Event != EventStart {
		return entry.Answer(Queued{})
	}
	return entry.Answer(Queued{Request: t.enqueue(c.Node, c.Event, blobs.Packed{}).Sequence})
}

// Enqueue asks for something to be done to a node that has a record. Its Value
// is a Queued. The API's column of the transition table decides; an abort or a
// reapply of a claimed node is a Conflict, and so is a reapply behind another one.
type Enqueue struct {
	Node  string `cbor:"1,keyasint"`
	Event Event  `cbor:"2,keyasint"` // process, abort, reapply, timeout or delete
	// Document is what a process works on, and what a reapply works on in the
	// place of the stored one.
	Document blobs.Packed  `cbor:"3,keyasint,omitzero"`
	Timeout  time.Duration `cbor:"4,keyasint,omitempty"` // of a reapply, until its deadline
}

// Validate implements Command.
func (c Enqueue) Validate() error {
	switch c.Event {
	case EventProcess:
		if c.Document.IsZero() {
			return errors.New("a callback without a document")
		}
	case EventReapply:
		if err := validTimeout(c.Timeout); err != nil {
			return err
		}
	case EventAbort, EventTimeout, EventDelete:
		if !c.Document.IsZero() {
			return fmt.Errorf("event %v takes no document", c.Event)
		}
	default:
		return fmt.Errorf("event %v is not for the queue", c.Event)
	}
	return errors.Join(valid.Node(c.Node), c.Document.Validate())
}

// Apply implements entry.Change.
func (c Enqueue) Apply(t Txn) entry.Result {
	rec, known := t.nodes.records.Get([]byte(c.Node))
	if !known {
		return entry.Refuse(entry.NotFound, "Could not find node %s in cache", c.Node)
	}
	if joined, ok := t.joined(rec, c); ok {
		return entry.Answer(Queued{Request: joined, Joined: true})
	}
	out := Transition(rec.State, c.Event, FromAPI)
	_, claimed := t.queue.claimOf.Get([]byte(c.Node))
	switch {
	case out.Verdict == Locked, claimed && (c.Event == EventAbort || c.Event == EventReapply),
		c.Event == EventReapply && reapplies(t, c.Node):
		return entry.Refuse(entry.Conflict, "node %s is locked by what runs for it; retry later", c.Node)
	case out.Verdict == Refuse:
		return illegal(rec.State, c.Event)
	case out.Verdict == Ignore:
		return entry.Answer(Queued{})
	case c.Event == EventTimeout && rec.Deadline.After(t.Now()):
		return entry.Refuse(entry.Refused, "the introspection of node %s has until %v", c.Node, rec.Deadline)
	}
	if res := queueRoom(t, rec, c); res.Code != entry.OK {
		return res
	}
	if out.Verdict == Move {
		next := t.accepted(rec, c, out.Next)
		t.putRecord(next, blobs.Packed{})
		t.recordStep(rec, next, c.Event, t.Proposer())
	}
	return entry.Answer(Queued{Request: t.enqueue(c.Node, c.Event, c.Document).Sequence})
}

// joined finds the request that asks for the same: a repeated callback, and a
// timeout or deletion that is queued already.
func (t Txn) joined(rec Record, c Enqueue) (fencing.Token, bool) {
	if c.Event != EventProcess && c.Event != EventTimeout && c.Event != EventDelete {
		return 0, false
	}
	if c.Event == EventProcess && rec.Delivered.Document == c.Document.Hash {
		return rec.Delivered.Request, true
	}
	r, ok := t.queue.pending(c.Node, c.Event, c.Document.Hash)
	return r.Sequence, ok && r.Sequence >= rec.Begun
}

// accepted moves a record when the request is accepted, before it is done.
func (t Txn) accepted(rec Record, c Enqueue, next NodeState) Record {
	rec = t.move(rec, c.Event, next, "")
	if next == NodeReapplying {
		rec.Started, rec.StartedMillis, rec.StartedBeyond = t.Now(), t.Header.WallMillis, 0
		rec.Deadline = t.Now().Add(c.Timeout)
		rec.Discovery = Discovery{} // an operator vouches for it
	}
	return rec
}

// DeleteNode removes a node: its record, its documents and all requests for it.
// A worker does it under its claim of the node; without one the node must be
// neither active nor claimed.
type DeleteNode struct {
	Node  string `cbor:"1,keyasint"`
	Claim Hold   `cbor:"2,keyasint,omitzero"`
}

// Validate implements Command.
func (c DeleteNode) Validate() error { return valid.Node(c.Node) }

// Apply implements entry.Change.
func (c DeleteNode) Apply(t Txn) entry.Result {
	rec, known := t.nodes.records.Get([]byte(c.Node))
	claim, r, held := t.held(c.Claim)
	switch {
	case !c.Claim.IsZero() && (!held || claim.Node != c.Node):
		return lost(c.Claim)
	case !known:
		return entry.Refuse(entry.NotFound, "Could not find node %s in cache", c.Node)
	case held && r.Sequence < rec.Begun:
		return illegal(rec.State, EventDelete) // what it was found by is history
	case !held && (rec.State.Active() || t.queue.claimOf.Has([]byte(c.Node))):
		return entry.Refuse(entry.Conflict, "node %s is %v or locked; delete it through the queue", c.Node, rec.State)
	}
	if held {
		t.queue.dropClaim(claim)
	}
	for key := range t.queue.byNode.Under([]byte(c.Node)) {
		r, _ := t.queue.requests.Get(table.TokenKey(table.TailToken(key)))
		t.dequeue(r)
	}
	t.nodes.records.Drop([]byte(c.Node))
	t.replaced(rec, Record{}, blobs.Packed{})
	t.recordNode(eventring.ActionDeleted, rec)
	return entry.Done()
}
