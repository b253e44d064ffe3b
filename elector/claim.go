package elector

import (
	"time"

	"github.com/trivet-ha/trivet/fencing"
)

// Word is what can be vouched for: a name, and when it may be said. The times are
// readings of one Clock.
type Word struct {
	Name  string // "": nobody
	Token fencing.Token
	Term  uint64        // of raft, 0 for a lease
	Asked time.Duration // before the quorum was asked
	From  time.Duration // not to be said before
	Until time.Duration // nor from then on
}

// At is the word as it may be said at a moment: the zero Word, which names nobody,
// if it may not.
func (w Word) At(now time.Duration) Word {
	if now < w.From || now >= w.Until {
		return Word{}
	}
	return w
}

// Source is asked for each answer. It answers at once, whatever has become of the
// quorum, and may be called concurrently.
type Source interface {
	// Word is the newest there is, also one that is over.
	Word() Word
}
