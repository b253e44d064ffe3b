package raftstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Snapshot writes the state next to the log and lets raft drop the log it covers.
func (s *Store) Snapshot(ctx context.Context) error {
	covered := s.log.Bytes()
	if s.View().Index() < s.opened { // what a start has yet to apply, no snapshot covers
		covered = 0
	}
	err := s.slots.awaitFuture(ctx, func() raft.Future { return s.raft.Snapshot() })
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("take snapshot: %w", err)
	}
	s.log.SnapshotTaken(covered)
	return nil
}
