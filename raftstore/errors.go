package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

var (
	// ErrNotLeader says that this peer does not lead: nothing was appended,
	// the caller may try again, here or elsewhere.
	ErrNotLeader = errors.New("this peer is not the leader")
	// ErrNoLeader says that no leader is known: nothing was appended.
	ErrNoLeader = errors.New("no leader: fewer than a majority of voters can be reached, or an election is under way")
	// ErrOutcomeUnknown says that a command was handed to the log and its end
	// was not learnt. It may be committed now, later or never; only the same
	// request ID may be tried again.
	ErrOutcomeUnknown = errors.New("outcome unknown: the command may or may not be committed")
	// ErrBusy says that too many commands wait already: nothing was appended.
	ErrBusy = errors.New("too many commands are waiting for the log")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrMuted says that this peer's transport refuses to send, because its
	// disk hangs or because it refuses to lead (docs/design.md#watchdog).
	ErrMuted = errors.New("muted: this peer does not act as a leader")
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

// appendError translates what a raft future said about an appended command.
// Only errors that raft gives before it appends count as "nothing happened"
// (raft.Apply's documentation; hashicorp/raft issue 561).
func appendError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w (%v)", ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w (%v)", ErrBusy, err)
	default:
		return fmt.Errorf("%w (%v)", ErrOutcomeUnknown, err)
	}
}

// slots are places for goroutines that wait for raft. Close waits for all of them.
type slots struct {
	taken   chan struct{} // one of its capacity per goroutine
	closing atomic.Bool
}

// take takes one of the bounded places.
func (s *slots) take() error {
	if s.closing.Load() {
		return ErrClosed
	}
	select {
	case s.taken <- struct{}{}:
		return nil
	default:
		return ErrBusy
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

// await starts a raft request in a slot and waits for its answer under the
// caller's own deadline: a future may never end while the disk hangs. The slot
// is free again when raft has answered.
func (s *slots) await(ctx context.Context, start func() raft.Future) error {
	if err := s.take(); err != nil {
		return err
	}
	return settle(ctx, start(), s.free)
}

// settle calls answered when the future has ended, also after ctx.
func settle(ctx context.Context, f raft.Future, answered func()) error {
	done := make(chan error, 1) // one answer, never blocks the sender
	go func() {
		err := f.Error()
		answered()
		done <- err
	}()
	select {
	case err := <-done:
		return appendError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w (%v)", ErrOutcomeUnknown, context.Cause(ctx))
	}
}
