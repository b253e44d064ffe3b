package fsm

import (
	"slices"

	"github.com/trivet-ha/trivet/fencing"
)

// ClaimNext claims the oldest request whose node nobody holds, for the
// header's session, which it needs. Its Value is a Claimed; NotFound says that
// there is nothing to claim.
type ClaimNext struct{}

// Claimed is what ClaimNext got: the claim and the request as it is now.
type Claimed struct {
	Claim   Claim         `cbor:"1,keyasint"`
	Request QueuedRequest `cbor:"2,keyasint"`
}

// Kind implements Command.
func (ClaimNext) Kind() Kind { return KindClaimNext }

// Validate implements Command.
func (ClaimNext) Validate() error { return nil }

func applyClaimNext(t *txn, _ ClaimNext) Result {
	s, ok := t.peers.sessions.get(tokenKey(t.header.Session))
	if !ok {
		return refuse(SessionEnded, "a claim needs a live session, %v is none", t.header.Session)
	}
	key, _, ok := t.queue.ready.first()
	if !ok {
		return refuse(NotFound, "no request waits for a worker")
	}
	r, _ := t.queue.requests.get(key)
	c := Claim{ID: t.token, Request: r.Sequence, Node: r.Node, Session: s.ID, Peer: s.Peer, Since: t.now()}
	r.Claim = c.ID
	r.Attempts++
	r.Peers = append(slices.Clone(r.Peers), s.Peer)
	t.queue.requests.put(key, r)
	t.queue.putClaim(c)
	return answer(Claimed{Claim: c, Request: r})
}

// Mark notes what a worker is about to do, so that a request that kills its
// workers can be told by it.
type Mark struct {
	Claim fencing.Token `cbor:"1,keyasint"`
	Hook  string        `cbor:"2,keyasint"`
}

// Kind implements Command.
func (Mark) Kind() Kind { return KindMark }

// Validate implements Command.
func (c Mark) Validate() error { return within("hook", c.Hook, 1, maxHook) }

func applyMark(t *txn, c Mark) Result {
	_, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	r.Hook = c.Hook
	t.queue.requests.put(tokenKey(r.Sequence), r)
	return done()
}

// Consume ends a request that was dealt with, and its claim.
type Consume struct {
	Claim fencing.Token `cbor:"1,keyasint"`
}

// Kind implements Command.
func (Consume) Kind() Kind { return KindConsume }

// Validate implements Command.
func (Consume) Validate() error { return nil }

func applyConsume(t *txn, c Consume) Result {
	claim, r, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	t.queue.dropClaim(claim)
	t.dequeue(r)
	return done()
}

// Release gives a claimed request back undone, for any worker to claim. It is
// for a worker that stops in good order and does not count as an attempt.
type Release struct {
	Claim fencing.Token `cbor:"1,keyasint"`
}

// Kind implements Command.
func (Release) Kind() Kind { return KindRelease }

// Validate implements Command.
func (Release) Validate() error { return nil }

func applyRelease(t *txn, c Release) Result {
	claim, _, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	t.giveBack(claim)
	return done()
}
