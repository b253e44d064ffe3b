package introspection

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// MaxClaims is how many requests one entry may claim.
const MaxClaims = 64

// ClaimRequests claims requests for the header's session, which it needs: those
// that exist, are free and come first for their node, in the order named, one a
// node. The others are skipped: another peer was faster. Its Value is a Claimed;
// NotFound says that none could be claimed. [Tables.Ready] tells what to name.
type ClaimRequests struct {
	Requests []fencing.Token `cbor:"1,keyasint"` // sequences, 1 to MaxClaims
}

// Claimed is what ClaimRequests got, in the order named.
type Claimed struct {
	Claims []ClaimedRequest `cbor:"1,keyasint"`
}

// ClaimedRequest is one claim and its request as it is now.
type ClaimedRequest struct {
	Claim   Claim         `cbor:"1,keyasint"`
	Request QueuedRequest `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c ClaimRequests) Validate() error {
	return valid.Count(len(c.Requests), MaxClaims, "requests are to be claimed")
}

// Apply implements entry.Change.
func (c ClaimRequests) Apply(t Txn) entry.Result {
	server, live := t.Peers.PeerOf(t.Header.Session)
	if !live {
		return entry.Refuse(entry.SessionEnded, "a claim needs a live session, %v is none", t.Header.Session)
	}
	var got Claimed
	for _, sequence := range c.Requests {
		if t.queue.ready.Has(table.TokenKey(sequence)) {
			got.Claims = append(got.Claims, t.claim(server, sequence))
		}
	}
	if len(got.Claims) == 0 {
		return entry.Refuse(entry.NotFound, "none of the %d requests waits for a worker", len(c.Requests))
	}
	return entry.Answer(got)
}

// claim gives a ready request to the session of a peer.
func (t Txn) claim(server string, sequence fencing.Token) ClaimedRequest {
	r, _ := t.queue.requests.Get(table.TokenKey(sequence))
	c := r.claimed(t.Header.Session, server, t.Token, t.Now())
	t.queue.requests.Put(table.TokenKey(r.Sequence), r)
	t.queue.putClaim(c)
	return ClaimedRequest{Claim: c, Request: r}
}

// claimed makes the request one that a session holds since an entry.
func (r *QueuedRequest) claimed(session fencing.Token, server string, entry fencing.Token, now entry.Time) Claim {
	r.Claim = entry
	r.Attempts++
	r.Peers = append(slices.Clone(r.Peers), server)
	return Claim{Request: r.Sequence, Token: entry, Node: r.Node, Session: session, Peer: server, Since: now}
}

// Mark notes what a worker is about to do, so that a request that kills its
// workers can be told by it, and saves what the worker has so far. A callback
// is answered after its Mark, so that a repeat gets the same answer.
type Mark struct {
	Claim Hold   `cbor:"1,keyasint"`
	Hook  string `cbor:"2,keyasint,omitempty"` // may be empty if something is saved
	// Answer is that of the claimed callback, whose processing has begun. One
	// that is known already stays.
	Answer Answer `cbor:"3,keyasint,omitzero"`
	// Processed and Unprocessed are those of Advance.
	Processed   blobs.Packed `cbor:"4,keyasint,omitzero"`
	Unprocessed blobs.Hash   `cbor:"5,keyasint,omitzero"`
}

// Validate implements Command.
func (c Mark) Validate() error {
	least := 1
	if c.saves() {
		least = 0
	}
	return errors.Join(valid.Length("hook", c.Hook, least, MaxHook), c.Answer.validate(), c.Processed.Validate())
}

// saves reports whether the mark is more than a note.
func (c Mark) saves() bool {
	return !c.Answer.IsZero() || !c.Processed.IsZero() || !c.Unprocessed.IsZero()
}

// Apply implements entry.Change.
func (c Mark) Apply(t Txn) entry.Result {
	claim, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	if c.saves() {
		rec, _ := t.nodes.records.Get([]byte(claim.Node))
		switch {
		case !rec.State.Active() || r.Sequence < rec.Begun:
			return entry.Refuse(entry.IllegalTransition, "the introspection of node %s that request %v belongs to is over",
				rec.Node, r.Sequence)
		case !c.Answer.IsZero() && rec.Delivered.Request != r.Sequence:
			return entry.Refuse(entry.Refused, "request %v is not the callback that is processed", r.Sequence)
		case !t.Blobs.Stored(c.Unprocessed):
			return notStored(c.Unprocessed)
		}
		rec = rec.saved(c.Unprocessed, c.Processed)
		rec.Delivered = rec.Delivered.answered(c.Answer)
		t.putRecord(rec, c.Processed)
	}
	if c.Hook != "" {
		t.queue.noteHook(r, c.Hook)
	}
	return entry.Done()
}

// Consume ends a request that was dealt with, and its claim.
type Consume struct {
	Claim Hold `cbor:"1,keyasint"`
}

// Validate implements Command.
func (Consume) Validate() error { return nil }

// Apply implements entry.Change.
func (c Consume) Apply(t Txn) entry.Result {
	claim, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	t.queue.dropClaim(claim)
	t.dequeue(r)
	return entry.Done()
}

// Release gives a claimed request back undone, for any worker to claim. It is
// for a worker that stops in good order and does not count as an attempt.
type Release struct {
	Claim Hold `cbor:"1,keyasint"`
}

// Validate implements Command.
func (Release) Validate() error { return nil }

// Apply implements entry.Change.
func (c Release) Apply(t Txn) entry.Result {
	claim, _, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	t.giveBack(claim)
	return entry.Done()
}

func notStored(h blobs.Hash) entry.Result {
	return entry.Refuse(entry.NotFound, "document %v is not stored: it went with the last that referred to it", h)
}

// MaxGap is the longest time between two turns.
const MaxGap = time.Hour

// throttle spaces out the turns of all workers.
type throttle struct {
	Next entry.Time `cbor:"1,keyasint,omitempty"` // when the next turn may be taken at the earliest
}

// TakeTurn reserves the next turn of the one throttle of the cluster, at least
// Gap after the turn before: power-ons are spaced out by it (reboot throttle).
// Its Value is a Turn. A turn that is not used is lost, not given on; one that
// would come after the node's introspection has timed out is Refused and not
// taken: a site that is started all at once would else use up the turns of the
// hours to come, and everything started in them would time out as well.
type TakeTurn struct {
	Claim Hold          `cbor:"1,keyasint"`
	Gap   time.Duration `cbor:"2,keyasint"` // to the turn after this one, at most MaxGap
}

// Turn says when a reserved turn comes.
type Turn struct {
	Wait time.Duration `cbor:"1,keyasint"` // from the cluster time of the entry
}

// Validate implements Command.
func (c TakeTurn) Validate() error {
	if c.Gap <= 0 || c.Gap > MaxGap {
		return fmt.Errorf("two turns lie up to %v apart, not %v", MaxGap, c.Gap)
	}
	return nil
}

// Apply implements entry.Change.
func (c TakeTurn) Apply(t Txn) entry.Result {
	claim, _, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	at := max(t.Now(), t.throttle.Next)
	if rec, _ := t.nodes.records.Get([]byte(claim.Node)); !at.Before(rec.Deadline) {
		return entry.Refuse(entry.Refused, "the next turn comes in %v, after the introspection of node %s has timed out",
			at.Sub(t.Now()), claim.Node)
	}
	t.throttle.Next = at.Add(c.Gap)
	return entry.Answer(Turn{Wait: at.Sub(t.Now())})
}
