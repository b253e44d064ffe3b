package inspector

import (
	"context"
	"errors"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Log reads the replicated state.
type Log interface {
	Read(ctx context.Context) (fsm.View, error) // linearizable
	View() fsm.View                             // as this peer has applied it
	// Changed returns the view and a channel that is closed when it is old.
	Changed() (fsm.View, <-chan struct{})
}

// Doer commits commands exactly once, for callers that wait a few seconds for a
// leader.
type Doer interface {
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}

// Commit commits a command; a refusal of the state machine is an error, too.
func Commit(ctx context.Context, do Doer, c fsm.Command) (fsm.Result, error) {
	res, err := do.Do(ctx, "", c)
	if err == nil {
		err = res.Err()
	}
	return res, err
}

// Reading says how fresh an answer must be.
type Reading int

const (
	// Linearizable answers hold everything acknowledged before the question.
	Linearizable Reading = iota
	// Stale answers are what this peer knows, quorum or not.
	Stale
)

const (
	// readLimit bounds a linearizable read, with the wait for a leader.
	readLimit = 7 * time.Second
	// readPause is kept between two tries to read while there is no leader.
	readPause = 50 * time.Millisecond
)

// ReadView returns the state to answer from. While there is no leader it asks again,
// for readLimit: an election is no reason to refuse a question.
func ReadView(ctx context.Context, log Log, r Reading) (fsm.View, error) {
	if r == Stale {
		return log.View(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	for {
		v, err := log.Read(ctx)
		if !errors.Is(err, logerr.ErrNoLeader) && !errors.Is(err, logerr.ErrNotLeader) {
			return v, err
		}
		if !pace.Wait(ctx, readPause) {
			return fsm.View{}, err
		}
	}
}

// Covers reports whether a view contains the entry that a token belongs to.
func Covers(v fsm.View, token fencing.Token) bool {
	return uint64(token) <= v.Base()+v.Index()
}
