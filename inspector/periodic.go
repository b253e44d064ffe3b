package inspector

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// maxSweep bounds what one round of a sweep does; the next one goes on.
const maxSweep = 1000

// Sweeps are the periodic tasks of the leader (specification, HA periodic
// clean-up): each runs on its own, so that an Ironic that does not answer keeps
// no introspection from timing out.
type Sweeps struct {
	Live   *LiveSettings
	Log    Log
	Ironic NodeClient
	Logger *slog.Logger
}

// Duties returns the sweeps as duties.
func (s *Sweeps) Duties() []leader.Duty {
	failing := logs.Limit(s.Logger)
	return []leader.Duty{
		periodic{"introspection timeouts", s.Live, s.timeouts, failing},
		periodic{"report expiry", s.Live, s.expire, failing},
		periodic{"ironic synchronisation", s.Live, s.synchronise, failing},
	}
}

// periodic is a duty that does the same again and again. A failure is logged
// and tried again: it is no reason to give leadership up.
type periodic struct {
	name string
	live *LiveSettings
	once func(ctx context.Context, a leader.Authority) error
	log  *slog.Logger
}

// Name implements leader.Duty.
func (p periodic) Name() string { return p.name }

// Run implements leader.Duty.
func (p periodic) Run(ctx context.Context, a leader.Authority) error {
	for {
		began := time.Now()
		if err := p.once(ctx, a); err != nil && ctx.Err() == nil {
			period, _ := p.live.period()
			p.log.Warn("periodic task failed, retrying", "task", p.name, "retry_in", period, "err", err)
		}
		if !p.wait(ctx, began) {
			return nil
		}
	}
}

// wait returns a period after began, which may become another meanwhile, and
// false when ctx has ended.
func (p periodic) wait(ctx context.Context, began time.Time) bool {
	for {
		period, changed := p.live.period()
		timer := time.NewTimer(time.Until(began.Add(period)))
		select {
		case <-timer.C:
			return true
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// timeouts asks for the end of introspections whose deadline, in cluster time,
// has passed; a worker carries it out under the node's lock.
func (s *Sweeps) timeouts(ctx context.Context, a leader.Authority) error {
	v := s.Log.View()
	done := 0
	for rec := range v.Overdue() {
		if done == maxSweep {
			break
		}
		if asked(v, rec.Node, introspection.EventTimeout) {
			continue
		}
		done++
		if err := propose(ctx, a, introspection.Enqueue{Node: rec.Node, Event: introspection.EventTimeout}); err != nil {
			return err
		}
	}
	return nil
}

// asked reports whether an event is queued for a node already.
func asked(v fsm.View, node string, event introspection.Event) bool {
	return slices.ContainsFunc(v.QueueOf(node), func(r introspection.QueuedRequest) bool { return r.Event == event })
}

// expire deletes reports that are older than inspection.report_expiry.
func (s *Sweeps) expire(ctx context.Context, a leader.Authority) error {
	expiry := s.Live.Config().ReportExpiry
	if expiry == 0 {
		return nil
	}
	v := s.Log.View()
	done := 0
	for rec := range v.EndedBefore(v.Now().Add(-expiry)) {
		if done == maxSweep {
			break
		}
		done++
		if err := propose(ctx, a, introspection.DeleteNode{Node: rec.Node}); err != nil {
			return err
		}
	}
	return nil
}

// propose commits one command of a sweep. What the state does not allow any
// more was overtaken and needs nothing.
func propose(ctx context.Context, a leader.Authority, c fsm.Command) error {
	res, err := a.Propose(ctx, c)
	if err != nil {
		return err
	}
	switch res.Code {
	case fsm.NotFound, fsm.IllegalTransition, fsm.Refused, fsm.Conflict:
		return nil
	default:
		return res.Err()
	}
}
