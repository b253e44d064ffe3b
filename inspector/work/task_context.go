package work

import (
	"context"
	"time"
)

// Bounds of an orderly stop, one after the other. Their sum leaves the rest of
// the process some seconds of the unit's TimeoutStopSec (30 s).
const (
	// stopGrace is for how long running tasks go on after the pool began to stop: a
	// callback with a dozen calls of an Ironic that takes a second for each ends by
	// itself.
	stopGrace = 18 * time.Second
	// callGrace is for how long a power call in flight may go on after its task
	// was interrupted. If it were cut, its outcome would be unknown, and the
	// worker that takes the request over would reset the machine a second time.
	callGrace = 4 * time.Second
	// flushGrace is for how long tasks may write their end into the log after that.
	flushGrace = 2 * time.Second
	// commitGrace bounds one write into the log from when the pool stops. Where
	// all peers stop at once there is no quorum left, and no write would end.
	commitGrace = 3 * time.Second
)

// stopContexts holds what ends, step by step, when the pool stops. Each context is
// canceled after the one before it, and all of them once the last task is done.
type stopContexts struct {
	claims  context.Context // no new work; tasks that only wait give their request back
	tasks   context.Context // tasks begin no further call
	calls   context.Context // power calls in flight
	commits context.Context // what tasks write into the log

	ends [4]context.CancelFunc // in this order
}

func newStopContexts(ctx context.Context) *stopContexts {
	var l stopContexts
	for i, c := range []*context.Context{&l.claims, &l.tasks, &l.calls, &l.commits} {
		*c, l.ends[i] = context.WithCancel(ctx)
	}
	return &l
}

// cancelInOrder cancels the contexts one after the other from when stop is closed, and
// all of them as soon as done is.
func (l *stopContexts) cancelInOrder(stop, done <-chan struct{}) {
	defer func() {
		for _, end := range l.ends {
			end()
		}
	}()
	select {
	case <-stop:
	case <-done:
		return
	}
	for i, wait := range [...]time.Duration{0, stopGrace, callGrace, flushGrace} {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			l.ends[i]()
		case <-done:
			timer.Stop()
			return
		}
	}
}

// commit returns the context of one write into the log, and what ends it.
func (l *stopContexts) commit() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(l.commits)
	forget := context.AfterFunc(l.claims, func() {
		timer := time.NewTimer(commitGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { forget(); cancel() }
}
