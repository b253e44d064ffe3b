package periodic

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// maxSweep bounds what one round of a sweep does; the next one goes on.
const maxSweep = 1000

// Ironic is the bare-metal service as the synchronisation asks it.
type Ironic interface {
	// NodeIDs lists the UUIDs of all nodes: all pages, or an error.
	NodeIDs(ctx context.Context) ([]string, error)
	// Node reads a node; ErrNoNode if there is none.
	Node(ctx context.Context, ref string) (ironic.Node, error)
}

// Sweeps are the periodic tasks of the leader (specification, HA periodic
// clean-up): each runs on its own, so that an Ironic that does not answer keeps
// no introspection from timing out.
type Sweeps struct {
	Live   *inspector.LiveSettings
	Log    inspector.Log
	Ironic Ironic
	Logger *slog.Logger

	asked string // the node that endOvertaken asked about last
}

// timeouts asks for the end of introspections whose deadline, in cluster time,
// has passed; a worker carries it out under the node's lock.
func (s *Sweeps) timeouts(ctx context.Context, a leader.Authority) error {
	v := s.Log.View()
	done := 0
	for rec := range v.OverdueAt(v.Now()) {
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

// maxNodesAsked is how many nodes one round reads from Ironic, each by itself.
const maxNodesAsked = 100

// endOvertaken cancels the introspections that wait for their machines to boot and whose nodes
// another user has by now. Whether a node is free was asked when its introspection began, and
// its MACs are on the whitelist until it ends: a restored log, or one that was off for a
// weekend, has introspections of which Ironic and the operators know nothing any more.
func (s *Sweeps) endOvertaken(ctx context.Context, a leader.Authority) error {
	v := s.Log.View()
	permitted := s.Live.Config().Processing.PermitActiveIntrospection
	var waiting []string
	for rec := range v.Records() {
		if rec.State == introspection.NodeWaiting {
			waiting = append(waiting, rec.Node)
		}
	}
	slices.Sort(waiting)
	next, found := slices.BinarySearch(waiting, s.asked) // this round's come after the one that was asked about last
	if found {
		next++
	}
	waiting = append(waiting[next:], waiting[:next]...)
	var failed []error
	for _, node := range waiting[:min(len(waiting), maxNodesAsked)] {
		s.asked = node
		n, err := s.Ironic.Node(ctx, node)
		switch {
		case errors.Is(err, ironic.ErrNoNode): // the synchronisation's
			continue
		case err != nil && (ironic.Unjudged(err) || ctx.Err() != nil):
			return errors.Join(append(failed, err)...)
		case err != nil: // of this node
			failed = append(failed, err)
			continue
		case inspector.CheckProvision(n, permitted) == nil, asked(v, node, introspection.EventAbort):
			continue
		}
		s.Logger.Warn("introspection cancelled: another user has the node", "node", node, "provision_state", n.Provision)
		if err := propose(ctx, a, introspection.Enqueue{Node: node, Event: introspection.EventAbort}); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

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
