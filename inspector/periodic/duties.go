package periodic

import (
	"context"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Duties returns the sweeps as duties.
func (s *Sweeps) Duties() []leader.Duty {
	failing := logs.Limit(s.Logger)
	return []leader.Duty{
		task{"introspection timeouts", s.Live, s.timeouts, failing},
		task{"introspections of nodes in use", s.Live, s.endOvertaken, failing},
		task{"report expiry", s.Live, s.expire, failing},
		task{"ironic synchronisation", s.Live, s.synchronise, failing},
	}
}

// task is a duty that does the same again and again. A failure is logged
// and tried again: it is no reason to give leadership up.
type task struct {
	name string
	live *inspector.LiveSettings
	once func(ctx context.Context, a leader.Authority) error
	log  *slog.Logger
}

// Name implements leader.Duty.
func (p task) Name() string { return p.name }

// Run implements leader.Duty.
func (p task) Run(ctx context.Context, a leader.Authority) error {
	for {
		began := time.Now()
		if err := p.once(ctx, a); err != nil && ctx.Err() == nil {
			p.log.Warn("periodic task failed, retrying", "task", p.name, "retry_in", p.live.Config().CleanUpPeriod, "err", err)
		}
		if !p.wait(ctx, began) {
			return nil
		}
	}
}

// wait returns a period after began, which may become another meanwhile, and
// false when ctx has ended.
func (p task) wait(ctx context.Context, began time.Time) bool {
	for {
		s, changed := p.live.Watch()
		select {
		case <-time.After(time.Until(began.Add(s.Config.CleanUpPeriod))):
			return true
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
