package introspection

import (
	"errors"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// TakeCallback is Enqueue of a callback by a peer that has looked at it and has a
// worker for it. If the node waits for a callback and for nothing else, the request
// is claimed for the header's session, which the command needs, and its processing
// has begun, all in this entry. Else the callback is queued for any worker, or
// joined, as by Enqueue. Its Value is a Taken.
type TakeCallback struct {
	Node     string       `cbor:"1,keyasint"`
	Document blobs.Packed `cbor:"2,keyasint"`
	// Keep makes the document the record's Unprocessed. Hook is that of Advance.
	Keep bool   `cbor:"3,keyasint,omitempty"`
	Hook string `cbor:"4,keyasint,omitempty"`
}

// Taken is what became of a callback that a peer wanted to take.
type Taken struct {
	Queued Queued `cbor:"1,keyasint"`
	// Claimed is the request that this peer works on from now on; nil if it was
	// queued or joined.
	Claimed *ClaimedRequest `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c TakeCallback) Validate() error {
	return errors.Join(c.enqueue().Validate(), validHook(c.Hook))
}

// enqueue is the command that queues the callback.
func (c TakeCallback) enqueue() Enqueue {
	return Enqueue{Node: c.Node, Event: EventProcess, Document: c.Document}
}

// Apply implements entry.Change.
func (c TakeCallback) Apply(t Txn) entry.Result {
	server, live := t.Peers.PeerOf(t.Header.Session)
	if !live {
		return entry.Refuse(entry.SessionEnded, "a claim needs a live session, %v is none", t.Header.Session)
	}
	rec, _ := t.nodes.records.Get([]byte(c.Node))
	if !t.expects(rec, c.enqueue()) {
		res := c.enqueue().Apply(t)
		if res.Code != entry.OK {
			return res
		}
		var taken Taken
		if err := res.Decode(&taken.Queued); err != nil {
			panic(err) // it was encoded just now
		}
		return entry.Answer(taken)
	}
	r := t.requested(rec.Node, EventProcess, c.Document)
	claim := r.claimed(t.Header.Session, server, t.Token, t.Now())
	r.Hook = c.Hook
	t.queue.requests.Put(table.TokenKey(r.Sequence), r)
	t.queue.byNode.Put(table.NameKey(r.Node, r.Sequence), table.None{})
	t.queue.claims.Put(table.TokenKey(r.Sequence), claim)
	t.queue.claimOf.Put([]byte(r.Node), r.Sequence)
	begin := Advance{Event: EventProcess}
	if c.Keep {
		begin.Unprocessed = r.Document
	}
	next := t.advanced(rec, r, begin, NodeProcessing)
	t.putRecord(next, blobs.Packed{})
	t.recordStep(rec, next, EventProcess, t.NameOf(server))
	return entry.Answer(Taken{Queued: Queued{Request: r.Sequence}, Claimed: &ClaimedRequest{Claim: claim, Request: r}})
}

// expects reports whether a node waits for a callback, this one was not met
// before, nothing else is to be done to the node first, and there is room.
func (t Txn) expects(rec Record, c Enqueue) bool {
	return Transition(rec.State, EventProcess, FromQueue) == to(NodeProcessing) && rec.Deadline.After(t.Now()) &&
		rec.Delivered.Document != c.Document.Hash && t.queue.head(rec.Node).IsZero() && queueRoom(t, rec, c).Code == entry.OK
}

// Decline gives a claimed request back as one that its peer was lost with: for a
// worker whose process died of the document before the log knew of it. The
// attempt counts, and the last ends the node's introspection in error.
type Decline struct {
	Claim Hold   `cbor:"1,keyasint"`
	Hook  string `cbor:"2,keyasint,omitempty"` // what the process was at, if that is known
}

// Validate implements Command.
func (c Decline) Validate() error { return validHook(c.Hook) }

// Apply implements entry.Change.
func (c Decline) Apply(t Txn) entry.Result {
	claim, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	if c.Hook != "" {
		t.queue.noteHook(r, c.Hook)
	}
	t.lose(claim)
	return entry.Done()
}

// validHook accepts the name of a hook, or none.
func validHook(hook string) error {
	if !utf8.ValidString(hook) {
		return errors.New("the name of a hook is not UTF-8")
	}
	return valid.Length("hook", hook, 0, MaxHook)
}
