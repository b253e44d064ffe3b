package raftstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/raftstore/batcher"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// readIndex asks the leader, and the next one where that is replaced meanwhile.
func (s *Store) readIndex(ctx context.Context) (uint64, error) {
	for {
		if s.leading.Load() != nil {
			return s.ConfirmedIndex(ctx)
		}
		leader, err := s.Elsewhere()
		if err != nil {
			return 0, err
		}
		limited, stop := s.WhileLeads(ctx)
		index, err := s.opts.Forward.ReadIndex(limited, leader)
		replaced := errors.Is(context.Cause(limited), errReplaced)
		stop()
		if err == nil || !replaced {
			return index, err
		}
	}
}

// ConfirmedIndex returns an index that covers everything acknowledged before
// the call, proven to be the leader's. Only a leader that is ready answers.
func (s *Store) ConfirmedIndex(ctx context.Context) (uint64, error) {
	l := s.leading.Load()
	if l == nil || !l.ready.Load() {
		return 0, logerr.ErrNotLeader
	}
	index, err := l.reads.Do(ctx, struct{}{})
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, batcher.ErrFull):
		return 0, fmt.Errorf("%w: %w", logerr.ErrBusy, err)
	}
	return index, err
}

const (
	// proofLimit bounds one shared proof, whose readers have deadlines of their own.
	proofLimit = 5 * time.Second
	// maxReaders bounds the readers that wait for a proof.
	maxReaders = 1 << 16
)

// answerReads proves once for all; Close waits for the slot.
func (l *Leadership) answerReads(ctx context.Context, reads []*batcher.Call[struct{}, uint64]) {
	var index uint64
	err := l.store.slots.takeSlot()
	if err == nil {
		defer l.store.slots.free()
		t0 := time.Now()
		index = l.decided()
		ctx, cancel := context.WithTimeout(ctx, proofLimit)
		defer cancel()
		err = l.Confirm(ctx, t0)
	}
	for _, r := range reads {
		r.Response, r.Err = index, err
	}
}

// decided returns an index that covers every command that any peer may have applied
// when it is called, on a leader that is ready. What was acknowledged was applied here
// before; but a follower hears from this leader what is committed, and may have shown
// it to a client already while this peer is busy applying it. The commit index may be
// that of an entry which no machine sees, and would then be waited for in vain: the
// newest command comes before it, or another one is on its way.
func (l *Leadership) decided() uint64 {
	return min(l.store.raft.CommitIndex(), l.store.log.Command())
}
