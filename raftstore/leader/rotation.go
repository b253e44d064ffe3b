package leader

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of the rotation of the gossip key.
const (
	rotationLook = 500 * time.Millisecond
	rotationStep = 5 * time.Second // one proposal
)

// Rotation is the duty that carries a rotation of the gossip key on, also one that
// began under an earlier leader: the log has its progress.
type Rotation struct {
	view func() fsm.View
	log  *slog.Logger
	// failing logs what fails at each look.
	failing *slog.Logger
}

// NewRotation returns the duty.
func NewRotation(view func() fsm.View, log *slog.Logger) *Rotation {
	return &Rotation{view: view, log: log, failing: logs.Limit(log)}
}

// Name implements Duty.
func (*Rotation) Name() string { return "gossip keys" }

// Run implements Duty. A step that fails is tried again.
func (r *Rotation) Run(ctx context.Context, a Authority) error {
	for range pace.Every(ctx, rotationLook) {
		if err := r.takeStep(ctx, a); err != nil && ctx.Err() == nil {
			r.failing.Warn("advance gossip key rotation failed, retrying", "err", err)
		}
	}
	return nil
}

// takeStep takes the next step once every peer that lives has confirmed the present
// one, or had membership.GossipStepTimeout to do so. The log judges the same again.
func (r *Rotation) takeStep(ctx context.Context, a Authority) error {
	view := r.view()
	now := view.GossipRotation()
	if now.Stage == membership.GossipSettled {
		return nil
	}
	missing := view.GossipMissing()
	if len(missing) > 0 && view.Now() < now.Since.Add(membership.GossipStepTimeout) {
		return nil
	}
	if len(missing) > 0 {
		r.failing.Warn("peers did not confirm the gossip keys in time; they read them from the log later", "peer_ids",
			missing, "stage", now.Stage)
	}
	ctx, cancel := context.WithTimeout(ctx, rotationStep)
	defer cancel()
	res, err := a.Propose(ctx, membership.AdvanceGossipKeys{Changed: now.Changed})
	if err = cmp.Or(err, res.Err()); err == nil {
		r.log.Info("gossip key rotation advanced", "stage", now.Stage)
	}
	return err
}
