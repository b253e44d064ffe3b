package firewall

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Log is the replicated state as this peer has applied it.
type Log interface {
	// Changed returns the view and a channel that is closed when it is old.
	Changed() (fsm.View, <-chan struct{})
}

// Authority is one leadership; all methods may be called concurrently.
type Authority interface {
	Token() fencing.Token
	// Propose commits a command under the leadership's token.
	Propose(ctx context.Context, c fsm.Command) (fsm.Result, error)
	// Confirm proves that no later leader was elected before t0.
	Confirm(ctx context.Context, t0 time.Time) error
}

// Succession is what one leadership knows of those before it. All methods may be called
// concurrently, and return at once.
type Succession interface {
	// Succeeds says of a leadership of an earlier term, whose door an entry of that
	// term recorded at an index, from when on it can have begun no proof, on the
	// clock of time.Now. ok is false where that is not known: the full wait applies.
	Succeeds(doorTerm, doorIndex uint64) (until time.Time, ok bool)
	// Configured returns the index of the newest change of the members that this
	// peer's log or snapshot holds.
	Configured() uint64
}

// Tenure is a leadership as the guard uses it.
type Tenure interface {
	Authority
	Succession
}

// covers reports whether a view contains the entry that a token belongs to.
func covers(v fsm.View, token fencing.Token) bool {
	return uint64(token) <= v.Base()+v.Index()
}
