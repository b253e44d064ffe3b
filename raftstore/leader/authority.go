package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

// Authority is what a duty acts under: the fencing token of one leadership and
// the means to use it. All methods may be called concurrently.
type Authority interface {
	// Token is constant for one leadership; it goes with every outside effect.
	Token() fencing.Token
	// Propose commits a command that carries the token; the state machine
	// refuses it with fsm.StaleToken under a later leader.
	Propose(ctx context.Context, c fsm.Command) (fsm.Result, error)
	Proof
}

// Proof is what a leadership can tell of later and of earlier ones.
type Proof interface {
	// Confirm proves that no later leader was elected before t0.
	Confirm(ctx context.Context, t0 time.Time) error
	// Succeeds says, of leaders of earlier terms, at what time by time.Now every proof of
	// theirs had begun. doorTerm and doorIndex are those of the newest entry by which such
	// a leader said that it does something. ok is false while, or where, that is not known:
	// see raftstore.Leadership.
	Succeeds(doorTerm, doorIndex uint64) (until time.Time, ok bool)
	// Configured returns the index of the newest change of the configuration in the log.
	Configured() uint64
}

// Duty is work that only the leader does.
type Duty interface {
	// Name is a short word for logs, metrics and errors.
	Name() string
	// Run works until ctx ends and returns within StopLimit after that. An
	// earlier return ends the leadership: a leader does all duties or none.
	Run(ctx context.Context, a Authority) error
}

// Task makes a duty of work that proposes and proves nothing itself.
func Task(name string, run func(ctx context.Context) error) Duty { return task{name, run} }

type task struct {
	name string
	run  func(context.Context) error
}

// Name implements Duty.
func (t task) Name() string { return t.name }

// Run implements Duty.
func (t task) Run(ctx context.Context, _ Authority) error { return t.run(ctx) }

// Confirmed returns a context that ends when leadership has not been confirmed again for
// d, counted from before the proof began. Outside effects that may take longer than d (a
// fence call takes a minute) run inside it (docs/design.md#fencing, rule b). The caller
// calls cancel when the effect is over.
func Confirmed(ctx context.Context, a Authority, d time.Duration) (context.Context, context.CancelFunc, error) {
	proven := time.Now()
	if err := confirmWithin(ctx, a, proven, d); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // renews the proof three times per d, cancels when the newest one is d old, and ends with ctx
		for range pace.After(ctx, d/3) {
			t0 := time.Now()
			if err := confirmWithin(ctx, a, t0, time.Until(proven.Add(d))); err != nil {
				cancel(fmt.Errorf("authority not confirmed within %v: %w", d, err))
				return
			}
			proven = t0
		}
	}()
	return ctx, func() { cancel(context.Canceled) }, nil
}

func confirmWithin(ctx context.Context, a Authority, t0 time.Time, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.Confirm(ctx, t0)
}

// Tenure is one leadership as the runner handles it.
type Tenure interface {
	Authority
	SetReady()
	End()
}

// Log is what the runner needs of the replicated log.
type Log interface {
	Role() (raftstore.Role, <-chan struct{})
	Changed() (fsm.View, <-chan struct{})
	Lead(ctx context.Context, lead fsm.Lead) (Tenure, error)
}

// OnStore makes a store the runner's log.
func OnStore(s *raftstore.Store) Log { return storeLog{s} }

type storeLog struct{ *raftstore.Store }

// Lead implements Log.
func (l storeLog) Lead(ctx context.Context, lead fsm.Lead) (Tenure, error) {
	tenure, err := l.Store.Lead(ctx, lead)
	if err != nil {
		return nil, err
	}
	return tenure, nil
}
