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

// covers reports whether a view contains the entry that a token belongs to.
func covers(v fsm.View, token fencing.Token) bool {
	return uint64(token) <= v.Base()+v.Index()
}
