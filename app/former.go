package app

import (
	"context"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// formers is the duty that asks former members.
type formers struct{ ask *cluster.Formers }

// Name implements leader.Duty.
func (formers) Name() string { return "former members" }

// Run implements leader.Duty.
func (f formers) Run(ctx context.Context, a leader.Authority) error { return f.ask.Run(ctx, a) }
