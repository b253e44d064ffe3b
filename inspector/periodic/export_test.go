package periodic

import (
	"context"
	"log/slog"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Timeouts, Expire and Synchronise are one round of each sweep.
func (s *Sweeps) Timeouts(ctx context.Context, a leader.Authority) error { return s.timeouts(ctx, a) }

// Expire is a round of the report expiry.
func (s *Sweeps) Expire(ctx context.Context, a leader.Authority) error { return s.expire(ctx, a) }

// Synchronise is a round of the synchronisation.
func (s *Sweeps) Synchronise(ctx context.Context, a leader.Authority) error {
	return s.synchronise(ctx, a)
}

// EndOvertaken is a round of the look for nodes that another user has.
func (s *Sweeps) EndOvertaken(ctx context.Context, a leader.Authority) error {
	return s.endOvertaken(ctx, a)
}

// For tests outside of this package.
const (
	MaxNodesAsked = maxNodesAsked
	MaxReason     = maxReason
	MaxSweep      = maxSweep
)

// For tests outside of this package.
var (
	Propose  = propose
	Recorded = recorded
)

// NewTask is a duty that does the same again and again.
func NewTask(name string, live *inspector.LiveSettings, once func(context.Context, leader.Authority) error,
	log *slog.Logger) leader.Duty {
	return task{name, live, once, log}
}
