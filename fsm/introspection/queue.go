package introspection

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of the queue (docs/design.md#workers).
const (
	// MaxQueue is the greatest number of requests that wait or are claimed.
	MaxQueue = 10_000
	// MaxAttempts is how often a request is claimed. When the last claim is
	// lost as well, its node ends in error.
	MaxAttempts = 3
	// MaxHook is the greatest length of a hook's name, in bytes.
	MaxHook = 128
)

// QueuedRequest is something to be done to a node. Requests of one node are
// done one at a time, in the order they came.
type QueuedRequest struct {
	Sequence fencing.Token `cbor:"1,keyasint"` // token of the entry that queued it
	Node     string        `cbor:"2,keyasint"`
	Event    Event         `cbor:"3,keyasint"`
	Document blobs.Hash    `cbor:"4,keyasint,omitzero"` // what came with it
	// Attempts counts the claims so far, Peers names who made them, and Hook
	// is the last thing that one of them was at.
	Attempts int           `cbor:"5,keyasint,omitempty"`
	Peers    []string      `cbor:"6,keyasint,omitempty"`
	Hook     string        `cbor:"7,keyasint,omitempty"`
	Queued   entry.Time    `cbor:"8,keyasint,omitempty"`
	Wall     int64         `cbor:"9,keyasint,omitempty"`  // when it was queued, Unix ms; for display
	Claim    fencing.Token `cbor:"10,keyasint,omitempty"` // token of the claim that holds it; zero: free
	Bytes    int           `cbor:"11,keyasint,omitempty"` // what its document takes; since log version 3
}

// Hold names a claim. One entry may claim several requests, so it takes both.
type Hold struct {
	Request fencing.Token `cbor:"1,keyasint"` // sequence
	Token   fencing.Token `cbor:"2,keyasint"` // of the ClaimRequests entry
}

// IsZero reports whether the hold names nothing.
func (h Hold) IsZero() bool { return h == Hold{} }

// Claim is a worker's hold on one request and its node, inside its peer's
// session: the node lock.
type Claim struct {
	Request fencing.Token `cbor:"1,keyasint"` // sequence
	Token   fencing.Token `cbor:"2,keyasint"` // of the ClaimRequests entry
	Node    string        `cbor:"3,keyasint"`
	Session fencing.Token `cbor:"4,keyasint"`
	Peer    string        `cbor:"5,keyasint"` // server ID
	Since   entry.Time    `cbor:"6,keyasint,omitempty"`
}

// Hold returns the claim's name.
func (c Claim) Hold() Hold { return Hold{Request: c.Request, Token: c.Token} }

// queue holds the requests and who works on them.
type queue struct {
	requests table.Of[QueuedRequest] // by sequence
	byNode   table.Of[table.None]    // node, sequence
	ready    table.Of[table.None]    // sequence: the first request of every node, where that is free
	claims   table.Of[Claim]         // by request
	claimOf  table.Of[fencing.Token] // request, by node
	bytes    int                     // of all requests
}

// head returns the sequence of a node's first request, zero if it has none.
func (q *queue) head(node string) fencing.Token {
	for key := range q.byNode.Under([]byte(node)) {
		return table.TailToken(key)
	}
	return 0
}

// offer makes a node's first request ready unless the node is claimed.
func (q *queue) offer(node string) {
	if head := q.head(node); !head.IsZero() && !q.claimOf.Has([]byte(node)) {
		q.ready.Put(table.TokenKey(head), table.None{})
	}
}

func (q *queue) putClaim(c Claim) {
	q.ready.Drop(table.TokenKey(c.Request))
	q.claims.Put(table.TokenKey(c.Request), c)
	q.claimOf.Put([]byte(c.Node), c.Request)
}

// claim finds a live claim by its name.
func (q *queue) claim(h Hold) (Claim, bool) {
	c, ok := q.claims.Get(table.TokenKey(h.Request))
	if !ok || c.Token != h.Token {
		return Claim{}, false
	}
	return c, true
}

// noteHook stores what is about to be done for a request.
func (q *queue) noteHook(r QueuedRequest, hook string) {
	r.Hook = hook
	q.requests.Put(table.TokenKey(r.Sequence), r)
}

func (q *queue) dropClaim(c Claim) {
	q.claims.Drop(table.TokenKey(c.Request))
	q.claimOf.Drop([]byte(c.Node))
}

// pending finds a request of a node that already asks for the same.
func (q *queue) pending(node string, event Event, document blobs.Hash) (QueuedRequest, bool) {
	for key := range q.byNode.Under([]byte(node)) {
		r, _ := q.requests.Get(table.TokenKey(table.TailToken(key)))
		if r.Event == event && r.Document == document {
			return r, true
		}
	}
	return QueuedRequest{}, false
}

// requested is a request that this entry makes, with the document that it brings.
func (t Txn) requested(node string, event Event, document blobs.Packed) QueuedRequest {
	r := QueuedRequest{
		Sequence: t.Token, Node: node, Event: event, Document: document.Hash,
		Queued: t.Now(), Wall: t.Header.WallMillis,
	}
	if t.Version >= logVersionShares {
		r.Bytes = documentBytes(t, document.Hash, document)
	}
	t.Blobs.Ref(document.Hash, document)
	t.queue.bytes += r.Bytes
	return r
}

// enqueue adds a request for a node under this entry's token, with the document
// that the entry brings for it.
func (t Txn) enqueue(node string, event Event, document blobs.Packed) QueuedRequest {
	r := t.requested(node, event, document)
	t.queue.requests.Put(table.TokenKey(r.Sequence), r)
	t.queue.byNode.Put(table.NameKey(node, r.Sequence), table.None{})
	t.queue.offer(node)
	return r
}

// dequeue removes a request that no worker holds any more.
func (t Txn) dequeue(r QueuedRequest) {
	t.queue.requests.Drop(table.TokenKey(r.Sequence))
	t.queue.byNode.Drop(table.NameKey(r.Node, r.Sequence))
	t.queue.ready.Drop(table.TokenKey(r.Sequence))
	t.queue.bytes -= r.Bytes
	t.Blobs.Unref(r.Document)
	t.queue.offer(r.Node)
}

// giveBack frees a claimed request in good order: the attempt does not count,
// since nothing was left half done.
func (t Txn) giveBack(c Claim) {
	r, _ := t.queue.requests.Get(table.TokenKey(c.Request))
	r.Claim = 0
	r.Attempts--
	r.Peers = slices.Clone(r.Peers[:len(r.Peers)-1])
	t.queue.requests.Put(table.TokenKey(r.Sequence), r)
	t.queue.dropClaim(c)
	t.queue.offer(c.Node)
}

// lose frees a request whose claim ended with its session. After the last
// attempt the node ends in error instead.
func (t Txn) lose(c Claim) {
	r, _ := t.queue.requests.Get(table.TokenKey(c.Request))
	t.queue.dropClaim(c)
	if r.Attempts >= MaxAttempts {
		t.giveUp(r)
		return
	}
	r.Claim = 0
	t.queue.requests.Put(table.TokenKey(r.Sequence), r)
	t.queue.offer(c.Node)
}

// giveUp ends a request that killed its workers, and its node's introspection
// with it unless that is over already.
func (t Txn) giveUp(r QueuedRequest) {
	rec, _ := t.nodes.records.Get([]byte(r.Node))
	if out := Transition(rec.State, EventGiveUp, FromQueue); out.Verdict == Move && r.Sequence >= rec.Begun {
		next := t.move(rec, EventGiveUp, out.Next, t.obituary(r, "was given up"))
		t.putRecord(next, blobs.Packed{})
		t.recordStep(rec, next, EventGiveUp, "")
	}
	t.dequeue(r)
}

// obituary says of a request what is known of those who tried.
func (t Txn) obituary(r QueuedRequest, fate string) string {
	names := slices.Clone(r.Peers)
	for i, id := range names {
		names[i] = t.NameOf(id) // its ID if it was removed meanwhile
	}
	hook := ""
	if r.Hook != "" {
		hook = fmt.Sprintf(", last at hook %s", r.Hook)
	}
	return fmt.Sprintf("request '%v' %s after %d attempts by %s%s", r.Event, fate, r.Attempts, strings.Join(names, ", "),
		hook)
}

// HoldsClaim reports whether a session holds a claim.
func (t Txn) HoldsClaim(session fencing.Token) bool {
	for _, c := range t.queue.claims.All() { // as many as there are workers
		if c.Session == session {
			return true
		}
	}
	return false
}

// LoseAll frees what a session that is over held. It looks at all claims: they
// are as many as there are workers, and sessions end seldom.
func (t Txn) LoseAll(session fencing.Token) {
	for _, c := range t.queue.claims.All() {
		if c.Session == session {
			t.lose(c)
		}
	}
}

// held finds a live claim. A worker that names a session names its own.
func (t Txn) held(h Hold) (Claim, QueuedRequest, bool) {
	c, ok := t.queue.claim(h)
	if !ok || !t.Header.Session.IsZero() && t.Header.Session != c.Session {
		return Claim{}, QueuedRequest{}, false
	}
	r, _ := t.queue.requests.Get(table.TokenKey(c.Request))
	return c, r, true
}

func lost(h Hold) entry.Result {
	return entry.Refuse(entry.ClaimLost, "claim %v of request %v is over: it was given back, or its session ended",
		h.Token, h.Request)
}

// loadRequest restores a request from a snapshot, in which the claims follow.
func loadRequest(t Txn, r QueuedRequest) {
	t.queue.bytes += r.Bytes
	t.queue.requests.Put(table.TokenKey(r.Sequence), r)
	t.queue.byNode.Put(table.NameKey(r.Node, r.Sequence), table.None{})
	if t.queue.head(r.Node) == r.Sequence {
		t.queue.ready.Put(table.TokenKey(r.Sequence), table.None{})
	}
}

// Unfinished says what a process was doing for a request when it ended. It
// counts if the request is still claimed by the session of that process.
type Unfinished struct {
	Request fencing.Token `cbor:"1,keyasint"` // its sequence
	Hook    string        `cbor:"2,keyasint"`
}

// Validate says why a note cannot go into the log.
func (u Unfinished) Validate() error {
	if u.Request.IsZero() {
		return errors.New("no request")
	}
	if !utf8.ValidString(u.Hook) {
		return errors.New("the name of a hook is not UTF-8")
	}
	return valid.Length("hook", u.Hook, 1, MaxHook)
}

// Learn notes what a session that is over was doing for its requests.
func (t Txn) Learn(session fencing.Token, all []Unfinished) {
	for _, u := range all {
		if c, ok := t.queue.claims.Get(table.TokenKey(u.Request)); ok && c.Session == session {
			r, _ := t.queue.requests.Get(table.TokenKey(u.Request))
			t.queue.noteHook(r, u.Hook)
		}
	}
}

// Revoke gives all claims back, since no worker failed, and forgets the turns that were
// taken: a founding begins a new history.
func (t Txn) Revoke() {
	for _, c := range t.queue.claims.All() {
		t.giveBack(c)
	}
	t.throttle = throttle{}
}
