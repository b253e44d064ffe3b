package periodic

import (
	"context"
	"log/slog"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
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
