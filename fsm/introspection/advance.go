package introspection

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Texts of the contract for ends that carry no reason of their own.
const (
	textTimeout  = "Introspection timeout"
	textCanceled = "Canceled by operator"
)

// Advance moves a claimed node by the queue's column of the transition table
// and saves what its worker found, in one step. Its Value is an Advanced.
type Advance struct {
	Claim Hold   `cbor:"1,keyasint"`
	Event Event  `cbor:"2,keyasint"`
	Error string `cbor:"3,keyasint,omitempty"` // why, for events that end in error
	// Attributes, if present, replace the record's. So do the documents:
	// Unprocessed names one that is stored, the request's; Processed is new.
	Attributes  *Attributes  `cbor:"4,keyasint,omitempty"`
	Unprocessed blobs.Hash   `cbor:"5,keyasint,omitzero"`
	Processed   blobs.Packed `cbor:"6,keyasint,omitzero"`
	// Consume ends the request and its claim as well.
	Consume bool `cbor:"7,keyasint,omitempty"`
	// Hook is what the worker is about to do next, as in Mark. It is lost on a
	// request that is consumed.
	Hook string `cbor:"8,keyasint,omitempty"`
	// Answer is what the claimed callback gets. It makes the callback the
	// record's Delivered, also when its processing never began, unless that
	// callback has its answer: an answer that may have been told stays.
	Answer Answer `cbor:"9,keyasint,omitzero"`
}

// Advanced tells what Advance did. A worker that began to process and reads To
// NodeError met a callback that had been begun before (déjà vu): it must stop.
type Advanced struct {
	From NodeState `cbor:"1,keyasint"`
	To   NodeState `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c Advance) Validate() error {
	switch c.Event {
	case EventStart, EventWait, EventProcess, EventFinish, EventAbort, EventAbortEnd, EventTimeout, EventReapply:
	case EventError:
		if c.Error == "" {
			return errors.New("an error without a reason")
		}
	default:
		return fmt.Errorf("event %v does not come from a worker", c.Event)
	}
	if c.Attributes != nil {
		if err := c.Attributes.validate(); err != nil {
			return err
		}
	}
	return cmp.Or(valid.Length("error", c.Error, 0, MaxErrorText), valid.Length("hook", c.Hook, 0, MaxHook),
		errors.Join(c.Processed.Validate(), c.Answer.validate()))
}

// Apply implements entry.Change.
func (c Advance) Apply(t Txn) entry.Result {
	claim, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	rec, _ := t.nodes.records.Get([]byte(claim.Node))
	out := Transition(rec.State, c.Event, FromQueue)
	switch {
	case out.Verdict != Move, r.Sequence < rec.Begun, c.Event == EventTimeout && rec.Deadline.After(t.Now()):
		return illegal(rec.State, c.Event)
	case c.Event.asked() && c.Event != r.Event:
		return entry.Refuse(entry.Refused, "the claimed request is '%v', not '%v'", r.Event, c.Event)
	case !c.Answer.IsZero() && r.Event != EventProcess:
		return entry.Refuse(entry.Refused, "the claimed request is '%v', which nobody waits for an answer of", r.Event)
	case !t.Blobs.Stored(c.Unprocessed):
		return notStored(c.Unprocessed)
	}
	next := t.advanced(rec, r, c, out.Next)
	t.putRecord(next, c.Processed)
	t.recordStep(rec, next, c.Event, t.NameOf(claim.Peer))
	switch {
	case c.Consume:
		t.queue.dropClaim(claim)
		t.dequeue(r)
	case c.Hook != "":
		t.queue.noteHook(r, c.Hook)
	}
	return entry.Answer(Advanced{From: rec.State, To: out.Next})
}

// asked reports whether the event is what a request asks for, rather than the
// outcome of its work.
func (e Event) asked() bool {
	return e == EventStart || e == EventProcess || e == EventAbort || e == EventReapply || e == EventTimeout
}

func (t Txn) advanced(rec Record, r QueuedRequest, c Advance, next NodeState) Record {
	from := rec.State
	if c.Attributes != nil && next.Active() { // they vanish with the end
		rec.Attributes = *c.Attributes
	}
	rec = rec.saved(c.Unprocessed, c.Processed)
	if !c.Answer.IsZero() || c.Event == EventProcess && next == NodeProcessing {
		if rec.Delivered.Request != r.Sequence {
			rec.Delivered = Delivery{Document: r.Document, Request: r.Sequence}
		}
		rec.Delivered = rec.Delivered.answered(c.Answer)
	}
	if next == NodeStarting && !from.Active() {
		// The specification's Inspect of an ended introspection. Its deadline
		// is as far away as it was at first.
		rec.Deadline = t.Now().Add(rec.Deadline.Sub(rec.Started))
		rec.Started, rec.StartedMillis, rec.StartedBeyond = t.Now(), t.Header.WallMillis, 0
		rec.Finished, rec.FinishedMillis, rec.FinishedBeyond, rec.Error = 0, 0, 0, ""
		rec.Finding = entry.Finding{}
	}
	return t.move(rec, c.Event, next, t.reason(c, r, from))
}

// reason is the error that a record ends with.
func (t Txn) reason(c Advance, r QueuedRequest, from NodeState) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.Event == EventTimeout:
		return textTimeout
	case c.Event == EventAbort, c.Event == EventAbortEnd:
		return textCanceled
	case c.Event == EventProcess && from == NodeProcessing:
		return t.obituary(r, "was met again while its processing had begun (déjà vu)")
	}
	return ""
}
