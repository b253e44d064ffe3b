package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

const (
	// maxWaiting bounds the steps that wait in a lane, of all holders that ask.
	maxWaiting = 50_000
	// stepLimit bounds the way of one batch; who commits it gives up on its own before.
	stepLimit = 10 * time.Second
)

// lane carries the steps of many holders in few batches: what comes while its batches
// are under way goes with the next one.
type lane struct {
	calls    int                  // batches under way at once, at most
	patience func() time.Duration // how long the first step waits for others
	enough   int                  // so many need not wait
	take     func(context.Context, []fsm.LeaseStep) ([]fsm.LeaseStepped, error)

	life context.Context // of every batch
	stop context.CancelFunc
	full chan struct{} // capacity 1: enough wait

	mu      sync.Mutex
	waiting []*rider
	under   int // batches under way
	closed  bool
	running sync.WaitGroup
}

// rider is one step and what became of it.
type rider struct {
	step fsm.LeaseStep
	done chan struct{} // closed when said and err are set
	said fsm.LeaseStepped
	err  error
}

// open readies a lane whose bounds are set.
func (l *lane) open() {
	l.full = make(chan struct{}, 1)
	l.life, l.stop = context.WithCancel(context.Background())
}

// close ends the batches under way, whose outcome stays unknown, and refuses others.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.running.Wait()
}

// ask returns what became of each step. When ctx ends first the outcome is unknown:
// they may be on their way.
func (l *lane) ask(ctx context.Context, steps ...fsm.LeaseStep) ([]fsm.LeaseStepped, error) {
	riders := make([]*rider, 0, len(steps))
	for _, s := range steps {
		riders = append(riders, &rider{step: s, done: make(chan struct{})})
	}
	if err := l.enter(riders); err != nil {
		return nil, err
	}
	said := make([]fsm.LeaseStepped, 0, len(steps))
	for _, r := range riders {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", raftstore.ErrOutcomeUnknown, context.Cause(ctx))
		}
		if r.err != nil {
			return nil, r.err
		}
		said = append(said, r.said)
	}
	return said, nil
}

func (l *lane) enter(riders []*rider) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting)+len(riders) > maxWaiting {
		return raftstore.ErrBusy
	}
	l.waiting = append(l.waiting, riders...)
	if len(l.waiting) >= l.enough {
		select {
		case l.full <- struct{}{}:
		default: // it is known
		}
	}
	if l.under < l.calls {
		l.under++
		l.running.Go(l.run)
	}
	return nil
}

// run takes one batch after the other until nobody waits.
func (l *lane) run() {
	for {
		l.gather()
		batch := l.depart()
		if batch == nil {
			return
		}
		l.carry(batch)
	}
}

// gather waits for others, unless enough are there.
func (l *lane) gather() {
	t := time.NewTimer(l.patience())
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.full:
	}
}

// depart takes those who go together; nil ends the run.
func (l *lane) depart() []*rider {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.waiting = nil
		l.under--
		return nil
	}
	n := min(len(l.waiting), fsm.MaxLeaseSteps)
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	if len(l.waiting) < l.enough {
		select {
		case <-l.full: // it was of those who go now
		default:
		}
	}
	return batch
}

func (l *lane) carry(batch []*rider) {
	steps := make([]fsm.LeaseStep, 0, len(batch))
	for _, r := range batch {
		steps = append(steps, r.step)
	}
	ctx, cancel := context.WithTimeout(l.life, stepLimit)
	said, err := l.take(ctx, steps)
	cancel()
	if err == nil && len(said) != len(steps) {
		err = fmt.Errorf("%d steps of leases were answered of %d", len(said), len(steps))
	}
	for n, r := range batch {
		if r.err = err; err == nil {
			r.said = said[n]
		}
		close(r.done)
	}
}
