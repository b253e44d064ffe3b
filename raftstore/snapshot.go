package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
)

// Snapshot writes the state beside the log and lets raft drop the log it covers.
func (s *Store) Snapshot(ctx context.Context) error {
	covered := s.log.bytesSinceSnapshot()
	err := s.await(ctx, func() raft.Future { return s.raft.Snapshot() })
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("take snapshot: %w", err)
	}
	s.log.snapshotTaken(covered)
	return nil
}

// Restore replaces the state of the whole cluster with one that was refounded
// (design §5.2), so that nothing granted before is valid after; sitting leaders
// establish anew. Leader only.
func (s *Store) Restore(ctx context.Context, state *fsm.State) error {
	l := s.leading.Load()
	if l == nil {
		return ErrNotLeader
	}
	var buf bytes.Buffer // zstd-compressed: tens of megabytes at 10,000 nodes
	if _, err := state.View().WriteTo(&buf); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: s.raft.LastIndex(), Term: l.term, Size: int64(buf.Len())}
	timeout := s.enqueueTimeout(ctx)
	err := s.await(ctx, func() raft.Future { return restoring{s.raft.Restore(meta, &buf, timeout)} })
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return nil
}

// restoring is the answer of raft.Restore, which blocks, as a future.
type restoring struct{ err error }

// Error implements raft.Future.
func (r restoring) Error() error { return r.err }
