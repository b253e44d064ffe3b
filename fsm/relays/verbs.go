package relays

import (
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Accept stores a document that is to be handed on to Ironic. The same
// document joins the one that is there, within Repeat, unless that is After. Its
// Value is a Relayed.
type Accept struct {
	Node     string        `cbor:"1,keyasint,omitempty"` // "" if not known
	Document blobs.Packed  `cbor:"2,keyasint"`
	Timeout  time.Duration `cbor:"3,keyasint"`           // for how long it is tried
	Keep     time.Duration `cbor:"4,keyasint,omitempty"` // and kept after; 0: as long as may be
	// Tried is how an attempt ended that preceded the acceptance: 0 if there was
	// none, OutcomeTaken, or OutcomeLost.
	Tried Outcome `cbor:"5,keyasint,omitempty"`
	// Source is the network that sent it, "" if that is not known. Each has a share
	// of the room.
	Source string `cbor:"6,keyasint,omitempty"`
	// After is the relay of this document that it does not repeat, because Ironic waits for a
	// document again: the relay has ended, or never reaches Ironic. Another relay than that is
	// joined all the same: another peer that saw Ironic wait was faster. It needs log version 3.
	After fencing.Token `cbor:"7,keyasint,omitempty"`
	// Unsure says that Ironic could not be asked whether it waits again. The new relay takes
	// the place of After then, so that a repeat is still kept once.
	Unsure bool `cbor:"8,keyasint,omitempty"`
}

// logVersionAfter is the log version that brought Accept.After.
const logVersionAfter = 3

// Since is the log version that a member must know to read the command.
func (c Accept) Since() int { return entry.SinceField(!c.After.IsZero(), logVersionAfter) }

// Relayed tells which relay a document has.
type Relayed struct {
	Sequence fencing.Token `cbor:"1,keyasint"`
	Node     string        `cbor:"2,keyasint,omitempty"` // of whom it was said to be when it first came
	Joined   bool          `cbor:"3,keyasint,omitempty"`
}

// Validate implements Command.
func (c Accept) Validate() error {
	if c.Node != "" {
		if err := valid.Node(c.Node); err != nil {
			return err
		}
	}
	if c.Tried != 0 && c.Tried != OutcomeTaken && c.Tried != OutcomeLost {
		return fmt.Errorf("outcome %d does not precede an acceptance", c.Tried)
	}
	if c.Document.IsZero() {
		return errors.New("no document")
	}
	return errors.Join(c.Document.Validate(), validTry(c.Timeout), validKeep(c.Keep),
		valid.Length("source", c.Source, 0, maxRelaySource),
		valid.Chars("source", c.Source, func(b byte) bool { return b > ' ' && b < 0x7f }))
}

func validTry(d time.Duration) error {
	if d <= 0 || d > MaxTime {
		return fmt.Errorf("a document is tried for up to %v, not %v", MaxTime, d)
	}
	return nil
}

func validKeep(keep time.Duration) error {
	if keep < 0 || keep > MaxKeep {
		return fmt.Errorf("a document is kept for 0 to %v, not %v", MaxKeep, keep)
	}
	return nil
}

// Apply implements entry.Change.
func (c Accept) Apply(t Txn) entry.Result {
	earlier, repeats := t.Repeated(c.Document.Hash)
	if repeats && earlier.Sequence != c.After {
		return entry.Answer(Relayed{Sequence: earlier.Sequence, Node: earlier.Node, Joined: true})
	}
	r := Relay{
		Sequence: t.Token, Node: c.Node, Document: c.Document.Hash, State: Pending,
		Doubt: c.Tried == OutcomeLost, Origin: Origin{Source: c.Source},
		Accepted: t.Now(), Deadline: t.Now().Add(c.Timeout), AcceptedMillis: t.Wall(),
	}
	if repeats && earlier.State == Taken {
		r.After = earlier.Sequence
	}
	bytes := t.relayBytes(c.Document)
	if res := t.relayRoom(r, bytes); res.Code != entry.OK {
		return res
	}
	t.makeRoom(r, bytes)
	if c.Tried != 0 {
		r.Tries = 1
	}
	if c.Tried == OutcomeTaken {
		r = t.endRelay(r, Taken, "", c.Keep)
	}
	t.Blobs.Ref(c.Document.Hash, c.Document)
	t.indexRelay(r)
	if c.Unsure && repeats && earlier.State != Pending {
		t.expireRelay(earlier.Sequence)
	}
	return entry.Answer(Relayed{Sequence: r.Sequence, Node: r.Node})
}

// Try says that an attempt begins, before its first byte is sent: the next
// leader knows then that Ironic may have the document. A duty's command. Its Value
// is the Relay.
type Try struct {
	Sequence fencing.Token `cbor:"1,keyasint"`
}

// Validate implements Command.
func (Try) Validate() error { return nil }

// Apply implements entry.Change.
func (c Try) Apply(t Txn) entry.Result {
	r, ok := t.bySequence.Get(table.TokenKey(c.Sequence))
	switch {
	case !ok:
		return entry.Refuse(entry.NotFound, "there is no relay %v", c.Sequence)
	case r.State != Pending:
		return entry.Refuse(entry.Conflict, "relay %v is %v", c.Sequence, r.State)
	}
	r.Doubt = r.Doubt || r.Open
	r.Open = true
	r.Tries++
	t.putRelay(r)
	return entry.Answer(r)
}

// Settle says how an attempt ended. A duty's command. Its Value is the Relay.
type Settle struct {
	Sequence fencing.Token `cbor:"1,keyasint"`
	Try      int           `cbor:"2,keyasint"` // the relay's Tries: no other attempt is settled
	Outcome  Outcome       `cbor:"3,keyasint"`
	Reason   string        `cbor:"4,keyasint,omitempty"`
	Keep     time.Duration `cbor:"5,keyasint,omitempty"` // as in Accept
	// Node is the node that Ironic names; it counts where none was known.
	Node string `cbor:"6,keyasint,omitempty"`
}

// Validate implements Command.
func (c Settle) Validate() error {
	if c.Outcome < OutcomeTaken || c.Outcome > OutcomeGiveUp {
		return fmt.Errorf("outcome %d of a relay is none", c.Outcome)
	}
	if c.Outcome != OutcomeTaken && c.Reason == "" {
		return errors.New("a relay that is not taken has a reason")
	}
	if c.Node != "" {
		if err := valid.Node(c.Node); err != nil {
			return err
		}
	}
	return errors.Join(valid.Length("reason", c.Reason, 0, maxRelayReason), validKeep(c.Keep))
}

// Apply implements entry.Change.
func (c Settle) Apply(t Txn) entry.Result {
	r, ok := t.bySequence.Get(table.TokenKey(c.Sequence))
	switch {
	case !ok:
		return entry.Refuse(entry.NotFound, "there is no relay %v", c.Sequence)
	case r.State != Pending, r.Tries != c.Try, !r.Open && c.Outcome != OutcomeGiveUp:
		return entry.Refuse(entry.Conflict, "attempt %d of relay %v is settled", c.Try, c.Sequence)
	}
	r = t.settled(r, c)
	t.putRelay(r)
	return entry.Answer(r)
}

// Introduced says how the one attempt ended that the peer made which accepted a document with
// OutcomeLost: it committed the document first, so that one that dies meanwhile leaves a relay in
// doubt. What Ironic has no use for is kept no longer, as the peer passes Ironic's answer on. Its
// Value is the Relay.
type Introduced Settle

// Validate implements Command.
func (c Introduced) Validate() error { return Settle(c).Validate() }

// Apply implements entry.Change.
func (c Introduced) Apply(t Txn) entry.Result {
	r, ok := t.bySequence.Get(table.TokenKey(c.Sequence))
	switch {
	case !ok:
		return entry.Refuse(entry.NotFound, "there is no relay %v", c.Sequence)
	case r.State != Pending, r.Tries != c.Try, r.Open, !r.Doubt:
		return entry.Refuse(entry.Conflict, "attempt %d of relay %v is settled", c.Try, c.Sequence)
	case c.Outcome == OutcomeRefused, c.Outcome == OutcomeAbsent:
		t.dropRelay(r)
		return entry.Answer(r)
	}
	r.Doubt = c.Outcome != OutcomeAgain
	r = t.settled(r, Settle(c))
	t.putRelay(r)
	return entry.Answer(r)
}

// textLate begins the reason of a relay whose time is over; what was said last follows.
const textLate = "Ironic did not take it in time; last: "

// settled is what the end of an attempt makes of a relay. That Ironic waits for
// no such document means that it has it, where the answer to an earlier attempt
// was lost; else it may begin to wait, for a moment.
func (t Txn) settled(r Relay, c Settle) Relay {
	if r.Node == "" && c.Node != "" {
		r.Node = c.Node
		t.byNode.Put(table.NameKey(r.Node, r.Sequence), table.None{})
	}
	r.Open, r.Reason = false, c.Reason
	if c.Outcome != OutcomeAbsent && c.Outcome != OutcomeGiveUp {
		r.Absent = 0
	}
	switch c.Outcome {
	case OutcomeTaken:
		return t.endRelay(r, Taken, c.Reason, c.Keep)
	case OutcomeRefused:
		return t.endRelay(r, Failed, c.Reason, c.Keep)
	case OutcomeGiveUp:
		return t.endRelay(r, Failed, textLate+c.Reason, c.Keep)
	case OutcomeLost:
		r.Doubt = true
	case OutcomeAbsent:
		if r.Doubt {
			return t.endRelay(r, Taken, "the answer was lost, and Ironic waits for it no more: "+c.Reason, c.Keep)
		}
		if r.Absent == 0 {
			r.Absent = max(t.Now(), 1)
		}
		if t.Now().Sub(r.Absent) >= AbsentTimeout {
			if !r.After.IsZero() { // it was a repeat, which Ironic could not be asked about
				return t.endRelay(r, Taken, "Ironic took the same document before and waits for none: "+c.Reason, c.Keep)
			}
			return t.endRelay(r, Failed, c.Reason, c.Keep)
		}
	}
	return r
}
