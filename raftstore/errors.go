package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// CorruptError names the part of the data directory that cannot be read.
type CorruptError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged: %v", e.Path, e.Err)
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *CorruptError) Unwrap() error { return e.Err }

// slots are places for goroutines that wait for raft. Close waits for all of them.
type slots struct {
	taken   chan struct{} // one of its capacity per goroutine
	closing atomic.Bool
}

// takeSlot takes one of the bounded places.
func (s *slots) takeSlot() error {
	if s.closing.Load() {
		return logerr.ErrClosed
	}
	select {
	case s.taken <- struct{}{}:
		return nil
	default:
		return logerr.ErrBusy
	}
}

func (s *slots) free() { <-s.taken }

// drain waits until every slot is free: raft forgets the futures that still wait
// in its queue when it shuts down, and their goroutines would wait for ever.
func (s *slots) drain(ctx context.Context) {
	for range cap(s.taken) {
		select {
		case s.taken <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// awaitFuture starts a raft request in a slot and waits for its answer under the
// caller's own deadline: a future may never end while the disk hangs. The slot
// is free again when raft has answered.
func (s *slots) awaitFuture(ctx context.Context, start func() raft.Future) error {
	if err := s.takeSlot(); err != nil {
		return err
	}
	return callWhenAnswered(ctx, start(), s.free)
}

// callWhenAnswered calls answered when the future has ended, also after ctx. Of the errors that
// the future may say of an appended command only those that raft gives before it appends count as
// "nothing happened" (raft.Apply's documentation; hashicorp/raft issue 561).
func callWhenAnswered(ctx context.Context, f raft.Future, answered func()) error {
	done := make(chan error, 1) // one answer, never blocks the sender
	go func() {
		err := f.Error()
		answered()
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("%w (%v)", logerr.ErrOutcomeUnknown, context.Cause(ctx))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w (%v)", logerr.ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w (%v)", logerr.ErrBusy, err)
	case errors.Is(err, raft.ErrNothingNewToSnapshot): // of Snapshot, which appends nothing
		return err
	default:
		return fmt.Errorf("%w (%v)", logerr.ErrOutcomeUnknown, err)
	}
}
