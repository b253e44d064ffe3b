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
	Proof
}

// Proof is what one leadership can tell of later and of earlier ones.
type Proof interface {
	// Confirm proves that no later leader was elected before t0.
	Confirm(ctx context.Context, t0 time.Time) error
	// Succeeds says of a leadership of an earlier term, whose door an entry of that
	// term recorded at an index, at what time by time.Now all its proofs had begun. ok
	// is false while, or where, that is not known: then the full wait applies.
	Succeeds(doorTerm, doorIndex uint64) (until time.Time, ok bool)
	// Configured returns the index of the newest change of the members that this
	// peer's log or snapshot holds.
	Configured() uint64
}

// covers reports whether a view contains the entry that a token belongs to.
func covers(v fsm.View, token fencing.Token) bool {
	return uint64(token) <= v.Base()+v.Index()
}
