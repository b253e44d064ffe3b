package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/raftstore/batcher"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Renewals are in no hurry, and entries are what they cost: where they are committed,
// the first of them waits for others. A release goes at once, since another client
// may wait for the lease.
const (
	renewalsGather = 50 * time.Millisecond
	renewalsEnough = 64
	releasesAtOnce = 2
	// maxWaiting bounds the steps that wait, of all holders that ask.
	maxWaiting = 50_000
	// stepLimit bounds the way of one batch; who commits it gives up on its own before.
	stepLimit = 10 * time.Second
)

// Leader is the peer that leads, where that is another one. What it is asked is a
// short cut: the log tells the same in the end.
type Leader interface {
	// Elsewhere reports whether there is such a peer now.
	Elsewhere() bool
	// Step has steps committed together with those of other peers. Errors:
	// logerr.ErrNotLeader, ErrNoLeader and ErrBusy say that nothing happened.
	Step(ctx context.Context, steps []leases.Step) ([]leases.Stepped, error)
	// AwaitEnd returns nil when a lease is not held under the token any more. The
	// leader is the first to know.
	AwaitEnd(ctx context.Context, name string, token fencing.Token) error
}

// alone is the Leader of a peer that has no other peer to ask.
type alone struct{}

// Elsewhere implements Leader.
func (alone) Elsewhere() bool { return false }

// Step implements Leader.
func (alone) Step(context.Context, []leases.Step) ([]leases.Stepped, error) {
	return nil, logerr.ErrNotLeader
}

// AwaitEnd implements Leader.
func (alone) AwaitEnd(context.Context, string, fencing.Token) error { return logerr.ErrNotLeader }

// stepBatcher commits the steps of many holders in few log entries.
type stepBatcher = batcher.Batcher[leases.Step, leases.Stepped]

// stepCommitter commits renewals and releases, by way of the leader.
type stepCommitter struct {
	leader   Leader
	do       Doer
	renewals *stepBatcher
	releases *stepBatcher
}

// newStepCommitter starts the renewals and the releases. A step is committed although
// its client gave up: it may be on its way. The leader has renewals wait for others as
// well, so that they do not wait here, too.
func newStepCommitter(of Options) *stepCommitter {
	c := &stepCommitter{leader: of.Leader, do: of.Do}
	o := batcher.Options[leases.Step, leases.Stepped]{
		Send: c.send, Parallel: releasesAtOnce, MaxCalls: leases.MaxSteps, MaxWaiting: maxWaiting, Detached: true,
	}
	c.releases = batcher.New(o)
	o.Parallel, o.Enough = 1, renewalsEnough
	o.Delay = func() time.Duration {
		if of.Leader.Elsewhere() {
			return 0
		}
		return renewalsGather
	}
	c.renewals = batcher.New(o)
	return c
}

// send gives each step of a batch its outcome.
func (c *stepCommitter) send(ctx context.Context, calls []*batcher.Call[leases.Step, leases.Stepped]) {
	steps := make([]leases.Step, 0, len(calls))
	for _, call := range calls {
		steps = append(steps, call.Request)
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	said, err := c.commitBatch(ctx, steps)
	cancel()
	if err == nil && len(said) != len(steps) {
		err = fmt.Errorf("%d steps of leases were answered of %d", len(said), len(steps))
	}
	for n, call := range calls {
		if call.Err = err; err == nil {
			call.Response = said[n]
		}
	}
}

// doSteps returns what became of each step. When ctx ends first the outcome is unknown.
func doSteps(ctx context.Context, in *stepBatcher, steps ...leases.Step) ([]leases.Stepped, error) {
	said, err := in.DoAll(ctx, steps...)
	switch {
	case errors.Is(err, batcher.ErrFull), errors.Is(err, batcher.ErrClosed):
		return nil, fmt.Errorf("%w: %w", logerr.ErrBusy, err)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil, fmt.Errorf("%w: %w", logerr.ErrOutcomeUnknown, err)
	}
	return said, err
}

// Step commits what another peer's holders want of their leases, together with what
// this peer's do. No batch is of both kinds.
func (s *Service) Step(ctx context.Context, steps []leases.Step) ([]leases.Stepped, error) {
	if len(steps) > 0 && steps[0].Release {
		return doSteps(ctx, s.steps.releases, steps...)
	}
	return doSteps(ctx, s.steps.renewals, steps...)
}

// AwaitEnd is what another peer asks this one while it leads.
func (s *Service) AwaitEnd(ctx context.Context, name string, token fencing.Token) error {
	_, err := s.o.Log.Wait(ctx, grantEnded(name, token))
	return err
}

// grantEnded says of a view that the grant under a token has ended there. An older one has
// not heard of it, and knows of its predecessors at most.
func grantEnded(name string, token fencing.Token) func(fsm.View) bool {
	return func(v fsm.View) bool {
		l, _ := v.Lease(name)
		return fencing.At(v.Base(), v.Index()) >= token && (l.Holder == "" || l.Token != token)
	}
}

// commitBatch has a batch committed by the leader, among those of other peers, or here. What
// may have happened without an answer is asked for again: a lease that is renewed
// twice lasts the longer, which its holder does not count on.
func (c *stepCommitter) commitBatch(ctx context.Context, steps []leases.Step) ([]leases.Stepped, error) {
	said, err := c.leader.Step(ctx, steps)
	if err == nil {
		return said, nil
	}
	perhaps := !errors.Is(err, logerr.ErrNotLeader) && !errors.Is(err, logerr.ErrNoLeader) &&
		!errors.Is(err, logerr.ErrBusy)
	if said, err = c.propose(ctx, steps); err != nil || !perhaps {
		return said, err
	}
	// What became of releases that fail the second time is unknown: the first may have ended the
	// lease, and what is there now came after.
	for n := range min(len(steps), len(said)) {
		if steps[n].Release && said[n].Code != fsm.OK {
			said[n].Code = fsm.OutcomeUnknown
			said[n].Message = fmt.Sprintf("the leader was lost while lease %s was released; read it", steps[n].Name)
		}
	}
	return said, nil
}

func (c *stepCommitter) propose(ctx context.Context, steps []leases.Step) ([]leases.Stepped, error) {
	res, err := c.do.Do(ctx, "", leases.Steps{Steps: steps})
	if err != nil {
		return nil, err
	}
	if err := res.Err(); err != nil {
		return nil, err
	}
	var said []leases.Stepped
	return said, res.Decode(&said)
}
