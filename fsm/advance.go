package fsm

import "github.com/trivet-ha/trivet/fencing"

// Texts of the contract for ends that carry no reason of their own.
const (
	textTimeout  = "Introspection timeout"
	textCanceled = "Canceled by operator"
)

// Advance moves a claimed node by the queue's column of the transition table
// and saves what its worker found, in one step. Its Value is an Advanced.
type Advance struct {
	Claim fencing.Token `cbor:"1,keyasint"`
	Event Event         `cbor:"2,keyasint"`
	Error string        `cbor:"3,keyasint,omitempty"` // why, for events that end in error
	// Attributes, if present, replace the record's. Documents, if named,
	// replace the record's; they are stored before, with PutBlob.
	Attributes  *Attributes `cbor:"4,keyasint,omitempty"`
	Unprocessed Hash        `cbor:"5,keyasint,omitzero"`
	Processed   Hash        `cbor:"6,keyasint,omitzero"`
	// Consume ends the request and its claim as well.
	Consume bool `cbor:"7,keyasint,omitempty"`
}

// Advanced tells what Advance did. A worker that began to process and reads To
// NodeError met a callback that had been begun before (déjà vu): it must stop.
type Advanced struct {
	From NodeState `cbor:"1,keyasint"`
	To   NodeState `cbor:"2,keyasint"`
}

// Kind implements Command.
func (Advance) Kind() Kind { return KindAdvance }

// Validate implements Command.
func (c Advance) Validate() error {
	switch c.Event {
	case EventStart, EventWait, EventProcess, EventFinish, EventAbort, EventAbortEnd, EventTimeout, EventReapply:
	case EventError:
		if c.Error == "" {
			return invalid("an error without a reason")
		}
	default:
		return invalid("event %v does not come from a worker", c.Event)
	}
	if c.Attributes != nil {
		if err := c.Attributes.validate(); err != nil {
			return err
		}
	}
	return within("error", c.Error, 0, maxErrorText)
}

func applyAdvance(t *txn, c Advance) Result {
	claim, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	rec, _ := t.nodes.records.get([]byte(claim.Node))
	out := Transition(rec.State, c.Event, FromQueue)
	switch {
	case out.Verdict != Move, r.Sequence < rec.Begun, c.Event == EventTimeout && rec.Deadline.After(t.now()):
		return illegal(rec.State, c.Event)
	case c.Event.asked() && c.Event != r.Event:
		return refuse(Refused, "the claimed request is '%v', not '%v'", r.Event, c.Event)
	}
	if res, missing := t.lacks(c.Unprocessed, c.Processed); missing {
		return res
	}
	t.putRecord(t.advanced(rec, r, c, out.Next))
	if c.Consume {
		t.queue.dropClaim(claim)
		t.dequeue(r)
	}
	return answer(Advanced{From: rec.State, To: out.Next})
}

// asked reports whether the event is what a request asks for, rather than the
// outcome of its work.
func (e Event) asked() bool {
	return e == EventStart || e == EventProcess || e == EventAbort || e == EventReapply || e == EventTimeout
}

func (t *txn) advanced(rec Record, r QueuedRequest, c Advance, next NodeState) Record {
	from := rec.State
	if c.Attributes != nil {
		rec.Attributes = *c.Attributes
	}
	if !c.Unprocessed.IsZero() {
		rec.Unprocessed = c.Unprocessed
	}
	if !c.Processed.IsZero() {
		rec.Processed = c.Processed
	}
	if c.Event == EventProcess && next == NodeProcessing {
		rec.Delivered = Delivery{Document: r.Document, Request: r.Sequence}
	}
	if next == NodeStarting && !from.Active() {
		// The specification's Inspect of an ended introspection. Its deadline
		// is as far away as it was at first.
		rec.Deadline = t.now().Add(rec.Deadline.Sub(rec.Started))
		rec.Started, rec.StartedMillis, rec.FinishedMillis, rec.Error = t.now(), t.header.WallMillis, 0, ""
	}
	return t.move(rec, c.Event, next, c.reason(r, from))
}

// reason is the error that a record ends with.
func (c Advance) reason(r QueuedRequest, from NodeState) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.Event == EventTimeout:
		return textTimeout
	case c.Event == EventAbort, c.Event == EventAbortEnd:
		return textCanceled
	case c.Event == EventProcess && from == NodeProcessing:
		return r.obituary("was met again while its processing had begun (déjà vu)")
	}
	return ""
}
