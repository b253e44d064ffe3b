package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

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

// SaveSnapshot writes a linearizable copy of the state to w.
func (s *Store) SaveSnapshot(ctx context.Context, w io.Writer) error {
	v, err := s.Read(ctx)
	if err != nil {
		return err
	}
	if _, err := v.WriteTo(w); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// RestoreSnapshot replaces the state of the whole cluster. The stream is
// rewritten before raft sees it (design §5.2): base is raised above every
// token that either history granted, and nothing granted before is valid
// after. Members, keys and incarnation stay those of this cluster, whose
// hosts they describe. Sitting leaders establish anew. Leader only.
func (s *Store) RestoreSnapshot(ctx context.Context, r io.Reader) error {
	l := s.leading.Load()
	if l == nil {
		return ErrNotLeader
	}
	state, err := fsm.Read(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	if err := state.Adopt(s.View()); err != nil {
		return err
	}
	if err := state.Refound(fsm.Refound{Index: s.raft.LastIndex(), UnixMillis: s.opts.Wall().UnixMilli()}); err != nil {
		return err
	}
	var buf bytes.Buffer // zstd-compressed: tens of megabytes at 10,000 nodes
	if _, err := state.View().WriteTo(&buf); err != nil {
		return fmt.Errorf("rewrite snapshot: %w", err)
	}
	meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: s.raft.LastIndex(), Term: l.term, Size: int64(buf.Len())}
	timeout := s.enqueueTimeout(ctx)
	err = s.await(ctx, func() raft.Future { return restoring{s.raft.Restore(meta, &buf, timeout)} })
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return nil
}

// restoring is the answer of raft.Restore, which blocks, as a future.
type restoring struct{ err error }

// Error implements raft.Future.
func (r restoring) Error() error { return r.err }
