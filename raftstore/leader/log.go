package leader

import (
	"context"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// Tenure is one leadership as the runner handles it.
type Tenure interface {
	Authority
	SetReady()
	End()
}

// Log is what the runner needs of the replicated log.
type Log interface {
	Role() (raftstore.Role, <-chan struct{})
	Changed() (fsm.View, <-chan struct{})
	Lead(ctx context.Context, lead fsm.Lead) (Tenure, error)
}

// OnStore makes a store the runner's log.
func OnStore(s *raftstore.Store) Log { return storeLog{s} }

type storeLog struct{ *raftstore.Store }

// Lead implements Log.
func (l storeLog) Lead(ctx context.Context, lead fsm.Lead) (Tenure, error) {
	tenure, err := l.Store.Lead(ctx, lead)
	if err != nil {
		return nil, err
	}
	return tenure, nil
}
