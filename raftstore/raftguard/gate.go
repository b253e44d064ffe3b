package raftguard

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Answers of a gate.
var (
	// ErrNotYet says that this peer is not in the term of the question yet: it may still
	// acknowledge older leaders. To ask again helps.
	ErrNotYet = errors.New("the term has not come here yet")
	// ErrNewerTerm says that this peer is in a newer term.
	ErrNewerTerm = errors.New("a newer term has begun")
)

// Gate is what each acknowledgement of this peer passes before it leaves: one of a term
// below the floor stays here, and the time of all others is noted. So a later leader can ask
// how long ago the newest acknowledgement of an earlier leader left, and from the answer on
// none leaves any more. It may be used concurrently.
//
// An earlier process of this peer acknowledged nothing after a gate was made: the data
// directory is locked before.
type Gate struct {
	now func() time.Duration // read under the lock, so that what is noted later is not earlier

	mu     sync.Mutex
	floor  uint64        // see Raise
	newest uint64        // the newest term of which something has left
	at     time.Duration // when the newest of that term left
	older  time.Duration // when the newest of any other term left
}

// NewGate returns a gate that knows nothing of the time before. now is a clock that nothing
// but the passing of time moves.
func NewGate(now func() time.Duration) *Gate {
	began := now()
	return &Gate{now: now, at: began, older: began}
}

// Raise lets nothing of a term below this one pass from now on. The caller has it on disk:
// what Age has answered holds for the next process, too.
func (g *Gate) Raise(term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.floor = max(g.floor, term)
}

// Pass notes an acknowledgement of a term, which may leave when Pass has returned, unless
// it is an error.
func (g *Gate) Pass(term uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if term < g.floor {
		return fmt.Errorf("acknowledge a leader of term %d: %w (%d)", term, ErrNewerTerm, g.floor)
	}
	now := g.now()
	switch {
	case term > g.newest:
		g.newest, g.older, g.at = term, max(g.older, g.at), now
	case term == g.newest:
		g.at = now
	default: // the newest term is not on disk yet
		g.older = now
	}
	return nil
}

// Age returns the time since the newest acknowledgement of any term below this one left. No
// other of those leaves afterwards.
func (g *Gate) Age(term uint64) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case term > g.floor:
		return 0, fmt.Errorf("term %d: %w (%d)", term, ErrNotYet, g.floor)
	case term < g.floor, term < g.newest:
		return 0, fmt.Errorf("term %d: %w (%d)", term, ErrNewerTerm, max(g.floor, g.newest))
	}
	last := g.older
	if g.newest < term {
		last = max(g.older, g.at)
	}
	return g.now() - last, nil
}
