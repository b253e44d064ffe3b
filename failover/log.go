package failover

import (
	"context"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Log is what failover reads of the replicated log.
type Log interface {
	// Changed returns the view and a channel that is closed when it is old.
	Changed() (fsm.View, <-chan struct{})
}

// Proposer commits commands under a leadership's token; leader.Authority is one.
type Proposer interface {
	Propose(ctx context.Context, c fsm.Command) (fsm.Result, error)
}

// Voter is this peer's session, in which it votes. cluster.Session is one.
type Voter interface {
	ID() fencing.Token // zero: none
	// Do commits a command exactly once, through whichever peer leads.
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}
