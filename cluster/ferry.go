package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/trivet-ha/trivet/raftstore"
)

// ferry carries what many ask one leader in few calls: what comes while its
// calls are under way waits and goes with the next one. It may be used
// concurrently.
type ferry struct {
	life  context.Context // of every call
	calls int             // at once, at most
	room  int             // bytes that one call carries, unless one question alone has more
	most  int             // questions that one call carries
	// carry makes one call and puts an answer into every ticket. Its context
	// ends when nobody waits for the trip any more.
	carry func(ctx context.Context, tickets []*ticket)

	mu      sync.Mutex
	under   int     // calls under way
	waiting []*trip // in the order they will leave; only the last takes more
	closed  bool
	running sync.WaitGroup
}

// trip is one call and those who wait for it.
type trip struct {
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when every ticket has its answer
	tickets []*ticket     // nil: withdrawn before it left
	bytes   int
	waiting int // who has not gone away
	left    bool
}

// ticket is one question and its answer, which belong to carry while the trip
// is under way.
type ticket struct {
	question []byte
	answer   []byte
	err      error
}

// ask returns the answer to a question. It joins only a trip that has not left,
// so that the answer is never older than the question. When ctx ends before the
// question was sent, the error is ErrBusy: it reached nobody, and never will.
func (f *ferry) ask(ctx context.Context, question []byte) ([]byte, error) {
	t := &ticket{question: question}
	trip, seat, err := f.enter(t)
	if err != nil {
		return nil, err
	}
	select {
	case <-trip.done:
		return t.answer, t.err
	case <-ctx.Done():
	}
	if f.leave(trip, seat) {
		return nil, fmt.Errorf("%w: the leader was not asked: %w", raftstore.ErrBusy, context.Cause(ctx))
	}
	return nil, context.Cause(ctx)
}

func (f *ferry) enter(t *ticket) (*trip, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, 0, fmt.Errorf("%w: this peer stops", raftstore.ErrNoLeader)
	}
	last := f.last(len(t.question))
	last.tickets = append(last.tickets, t)
	last.bytes += len(t.question)
	last.waiting++
	if f.under < f.calls {
		f.under++
		f.running.Go(f.run)
	}
	return last, len(last.tickets) - 1, nil
}

// last returns the trip that takes a question of this size.
func (f *ferry) last(size int) *trip {
	if n := len(f.waiting); n > 0 {
		last := f.waiting[n-1]
		if len(last.tickets) < f.most && last.bytes+size <= f.room {
			return last
		}
	}
	next := &trip{done: make(chan struct{})}
	next.ctx, next.cancel = context.WithCancel(f.life)
	f.waiting = append(f.waiting, next)
	return next
}

// leave takes somebody off a trip and reports whether the question was
// withdrawn before it was sent. A trip that nobody waits for is abandoned.
func (f *ferry) leave(t *trip, seat int) (withdrawn bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.waiting--
	if t.waiting == 0 && t.left {
		t.cancel()
	}
	if t.left {
		return false
	}
	t.tickets[seat] = nil
	return true
}

// run makes one call after the other until nobody waits.
func (f *ferry) run() {
	for {
		t, tickets := f.depart()
		if t == nil {
			return
		}
		if len(tickets) > 0 {
			f.carry(t.ctx, tickets)
		}
		t.cancel()
		close(t.done)
	}
}

// depart takes the next trip and those who did not withdraw; nil ends the run.
func (f *ferry) depart() (*trip, []*ticket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		f.under--
		return nil, nil
	}
	t := f.waiting[0]
	f.waiting = f.waiting[1:]
	t.left = true
	tickets := make([]*ticket, 0, t.waiting)
	for _, k := range t.tickets {
		if k != nil {
			tickets = append(tickets, k)
		}
	}
	return t, tickets
}

// close takes no more questions and waits for the calls, whose life the caller
// has ended.
func (f *ferry) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
}
