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
	// gatherAtLeast and gatherAtMost are how long the first renewal waits for others;
	// enough is how many need wait no longer than the least. Entries are what renewals
	// cost: three peers that gather for the most make one each ten milliseconds together.
	gatherAtLeast = 5 * time.Millisecond
	gatherAtMost  = 25 * time.Millisecond
	enough        = 32
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
	full chan struct{} // capacity 1: enough wait

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
	r.do, r.full = do, make(chan struct{}, 1)
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
	if len(r.waiting) >= enough {
		select {
		case r.full <- struct{}{}:
		default: // it is known
		}
	}
	if !r.busy {
		r.busy = true
		r.running.Go(r.run)
	}
	return nil
}

// run commits until nobody waits.
func (r *renewals) run() {
	for {
		r.gather()
		batch := r.take()
		if batch == nil {
			return
		}
		r.commit(batch)
	}
}

// gather waits for others, unless enough are there.
func (r *renewals) gather() {
	time.Sleep(gatherAtLeast)
	t := time.NewTimer(gatherAtMost - gatherAtLeast)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.full:
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
	if len(r.waiting) < enough {
		select {
		case <-r.full: // it was of those who are taken
		default:
		}
	}
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
