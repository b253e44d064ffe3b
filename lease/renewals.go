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
	// gather is how long the first renewal waits for others. Ten milliseconds of
	// holders everywhere become one entry of the log.
	gather = 5 * time.Millisecond
	// maxWaiting bounds the renewals that wait, of all holders that ask this peer.
	maxWaiting = 50_000
	// commitLimit bounds one entry; the session gives up on its own before.
	commitLimit = 10 * time.Second
)

// renewals carries what many holders ask within a few milliseconds in one entry.
// One entry is under way at a time: what comes meanwhile goes with the next.
type renewals struct {
	do   Doer
	life context.Context // of every entry
	stop context.CancelFunc

	mu      sync.Mutex
	waiting []*renewal
	busy    bool
	closed  bool
	running sync.WaitGroup
}

type renewal struct {
	asked fsm.RenewLease
	done  chan struct{} // closed when answer and err are set
	said  fsm.Renewed
	err   error
}

func (r *renewals) start(do Doer) {
	r.do = do
	r.life, r.stop = context.WithCancel(context.Background())
}

func (r *renewals) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
}

// ask returns what became of one renewal. When ctx ends first its outcome is
// unknown: it may be on its way.
func (r *renewals) ask(ctx context.Context, c fsm.RenewLease) (fsm.Renewed, error) {
	mine := &renewal{asked: c, done: make(chan struct{})}
	if err := r.enter(mine); err != nil {
		return fsm.Renewed{}, err
	}
	select {
	case <-mine.done:
		return mine.said, mine.err
	case <-ctx.Done():
		return fsm.Renewed{}, fmt.Errorf("%w: %w", raftstore.ErrOutcomeUnknown, context.Cause(ctx))
	}
}

func (r *renewals) enter(mine *renewal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) >= maxWaiting {
		return raftstore.ErrBusy
	}
	r.waiting = append(r.waiting, mine)
	if !r.busy {
		r.busy = true
		r.running.Go(r.run)
	}
	return nil
}

// run commits until nobody waits.
func (r *renewals) run() {
	for {
		time.Sleep(gather)
		batch := r.take()
		if batch == nil {
			return
		}
		r.commit(batch)
	}
}

func (r *renewals) take() []*renewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.waiting, r.busy = nil, false
		return nil
	}
	n := min(len(r.waiting), fsm.MaxRenewals)
	batch := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	return batch
}

func (r *renewals) commit(batch []*renewal) {
	c := fsm.RenewLeases{Renewals: make([]fsm.RenewLease, 0, len(batch))}
	for _, one := range batch {
		c.Renewals = append(c.Renewals, one.asked)
	}
	ctx, cancel := context.WithTimeout(r.life, commitLimit)
	said, err := r.propose(ctx, c)
	cancel()
	for n, one := range batch {
		if one.err = err; err == nil {
			one.said = said[n]
		}
		close(one.done)
	}
}

func (r *renewals) propose(ctx context.Context, c fsm.RenewLeases) ([]fsm.Renewed, error) {
	res, err := r.do.Do(ctx, "", c)
	if err != nil {
		return nil, err
	}
	if err := res.Err(); err != nil {
		return nil, err
	}
	var said []fsm.Renewed
	if err := res.Decode(&said); err != nil {
		return nil, err
	}
	if len(said) != len(c.Renewals) {
		return nil, fmt.Errorf("%d renewals were answered of %d", len(said), len(c.Renewals))
	}
	return said, nil
}
