package elector

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Claim says who leads an election, and during which time that is proven. The times are
// readings of one Clock.
type Claim struct {
	Name  string // "": no leader is known
	Token fencing.Token
	Term  uint64        // of raft, 0 for a lease
	Asked time.Duration // before the quorum was asked
	From  time.Duration // not to be said before
	Until time.Duration // nor from then on
}

// At returns the claim as it may be answered at a moment: the zero Claim, without a name,
// if it may not.
func (c Claim) At(now time.Duration) Claim {
	if now < c.From || now >= c.Until {
		return Claim{}
	}
	return c
}

// Source is asked for each answer. It answers at once, with or without a quorum,
// and may be called concurrently.
type Source interface {
	// Claim is the newest there is, also one that is over.
	Claim() Claim
}
