package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore"
)

// Limits of taking and giving up leadership (docs/design.md#leadership).
const (
	// EstablishLimit bounds the barrier and the Lead entry together.
	EstablishLimit = 10 * time.Second
	// StopLimit is how long a duty may run on after its context ended. A lame
	// duck must not act: past it the process exits.
	StopLimit = 2 * time.Second
	// tolerance is for how long an unfit peer leads when no voter took leadership
	// from it, before it asks again: a session's ttl, after which the state knows
	// better who lives.
	tolerance = membership.SessionTTL
	// passFor is for how long a peer that must not lead looks for one that may,
	// every passPause.
	passFor   = 2 * time.Second
	passPause = 50 * time.Millisecond
	// giveUpLimit bounds the wait for raft to follow a step-down.
	giveUpLimit = 5 * time.Second
	// ExitLostLeadership is the exit code of a process whose duty did not stop.
	ExitLostLeadership = 75
)

var (
	errRoleChanged = errors.New("raft gave leadership to another or took it away")
	errReplaced    = errors.New("the state names another leadership: it was restored")
	errUnfit       = errors.New("this peer is not fit to lead")
	errRestarted   = errors.New("no peer took the leadership that was handed on; this peer begins a new one")
)

// Options are the parts of a Runner.
type Options struct {
	Log  Log
	Lead fsm.Lead // who leads: this peer and its boot ID
	// Duties start in order and stop in reverse: the gate, which must close
	// first, comes last.
	Duties []Duty
	// Fit returns why another peer should lead now, nil if this one may.
	Fit func() error
	// Barred returns why this peer must not lead although no other can; nil if
	// it may. Raft may still elect it, for its log, and it hands that on.
	Barred func() error
	// Yield, if set, prepares for another leader while this one may still write:
	// what only the leader holds open is shut, and the log says so. It is called
	// before a leadership is given up that this peer must not have any more.
	Yield func(ctx context.Context)
	// StepDown hands leadership to a willing voter.
	StepDown func(ctx context.Context) error
	// Abdicate drops raft's leadership where no voter takes it.
	Abdicate func(ctx context.Context)
	// Exit ends the process at once; a test notes that it was called.
	Exit   func(code int, why error)
	Logger *slog.Logger
}

// Runner turns raft's notices into leaderships, one at a time: the old one has
// ended, with all its duties, before the next begins.
type Runner struct {
	opts Options

	unwanted time.Time    // when no voter took a leadership that this peer is not fit for
	again    *slog.Logger // of what is said at each attempt to hand such a leadership on

	mu     sync.Mutex
	tenure *tenure                 // nil while this peer does not lead
	end    context.CancelCauseFunc // of the present leadership; nil while there is none
}

// NewRunner returns a runner; Run starts it.
func NewRunner(o Options) *Runner { return &Runner{opts: o, again: logs.Limit(o.Logger)} }

// Run leads whenever raft says so, until ctx ends; it returns when the last
// duty has stopped.
func (r *Runner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		role, changed := r.opts.Log.Role()
		if role.Leader {
			if err := r.fit(); err != nil {
				r.giveUp(ctx, role, fmt.Errorf("%w: %w", errUnfit, err))
			} else {
				r.lead(ctx, role)
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// fit returns why leadership should be handed on now.
func (r *Runner) fit() error {
	if err := r.opts.Barred(); err != nil {
		return err
	}
	if !r.unwanted.IsZero() && time.Since(r.unwanted) < tolerance {
		return nil
	}
	return r.opts.Fit()
}

// Token returns the token of the present leadership, zero if there is none or
// its duties have not all started.
func (r *Runner) Token() fencing.Token {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenure == nil {
		return 0
	}
	return r.tenure.authority.Token()
}

// Restart ends the present leadership, if there is one, and begins another in the same
// term: promises under the old token do not bind the new one.
func (r *Runner) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		r.end(errRestarted)
	}
}

// bind says what ends the present leadership; nil: nothing is to be ended.
func (r *Runner) bind(end context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = end
}

func (r *Runner) set(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenure = t
}

// lead establishes one leadership, stays in it until something ends it, and
// revokes it.
func (r *Runner) lead(ctx context.Context, role raftstore.Role) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := sync.WaitGroup{}
	defer watch.Wait()
	watch.Go(func() {
		if r.deposed(ctx, role) {
			cancel(errRoleChanged)
		}
	})
	r.bind(cancel)
	defer r.bind(nil)

	t, err := r.establish(ctx, role)
	if err == nil {
		r.set(t)
		err = r.hold(ctx, t)
		r.set(nil)
		r.revoke(t, err)
	}
	cancel(err)
	if moved(err) {
		r.opts.Logger.Info("leadership lost", "reason", err)
		return
	}
	r.giveUp(context.WithoutCancel(ctx), role, err)
}

// moved tells that leadership went elsewhere, and nothing is wrong with this peer.
func moved(err error) bool {
	return errors.Is(err, errRoleChanged) || errors.Is(err, errReplaced) || errors.Is(err, errRestarted) ||
		errors.Is(err, context.Canceled)
}

func (r *Runner) establish(ctx context.Context, role raftstore.Role) (*tenure, error) {
	limited, cancel := context.WithTimeout(ctx, EstablishLimit)
	defer cancel()
	authority, err := r.opts.Log.Lead(limited, r.opts.Lead)
	if err != nil {
		if context.Cause(ctx) != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("establish leadership: %w", err)
	}
	// Not ctx itself: it ends all at once, the duties end one after the other.
	t := &tenure{ctx: context.WithoutCancel(ctx), authority: authority, failed: make(chan error, 1)}
	for _, d := range r.opts.Duties {
		t.start(d)
	}
	authority.SetReady()
	r.opts.Logger.Info("leadership acquired", "token", authority.Token(), "after", time.Since(role.Since))
	return t, nil
}

// hold returns why the leadership must end.
func (r *Runner) hold(ctx context.Context, t *tenure) error {
	fit := time.NewTicker(fitnessCheck)
	defer fit.Stop()
	for {
		v, changed := r.opts.Log.Changed()
		if now := v.Leadership().Token; now != t.authority.Token() {
			return fmt.Errorf("%w (its token is %v, ours %v)", errReplaced, now, t.authority.Token())
		}
		if err := r.opts.Barred(); err != nil { // an operator's word, which is in the log
			if r.opts.Yield != nil {
				r.opts.Yield(ctx)
			}
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		select {
		case <-changed:
		case d := <-t.failed:
			return d
		case <-fit.C:
			if err := r.fit(); err != nil {
				return fmt.Errorf("%w: %w", errUnfit, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// revoke stops the duties, last started first, without any raft call, and
// exits if one does not stop. The duties learn why, unless leadership moved.
func (r *Runner) revoke(t *tenure, why error) {
	t.authority.End()
	if moved(why) {
		why = nil
	}
	if stuck := t.stop(StopLimit, why); stuck != "" {
		r.opts.Exit(ExitLostLeadership, fmt.Errorf("duty %s did not stop within %v after leadership ended", stuck, StopLimit))
	}
}

// giveUp hands leadership on, because this peer cannot use it or should not. If no voter takes it,
// a peer that is merely unfit leads on for a while, one that must not lead lets go of it, and one
// that could not establish exits: a leader that does nothing is an outage without an alarm.
func (r *Runner) giveUp(ctx context.Context, role raftstore.Role, why error) {
	log := r.opts.Logger
	if !r.unwanted.IsZero() {
		log = r.again
	}
	log.Warn("stepping down", "reason", why)
	if r.opts.Barred() != nil {
		r.pass(ctx, role)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveUpLimit)
	defer cancel()
	err := r.opts.StepDown(ctx)
	if err != nil {
		log.Warn("transfer leadership failed", "err", err)
	}
	if errors.Is(why, errUnfit) && err != nil && r.fit() == nil {
		return // what was wrong has passed, and no voter took over: Run leads again
	}
	if unfit := r.fit(); err != nil && unfit != nil && !errors.Is(unfit, ErrHung) {
		r.unwanted = time.Now()
		return
	}
	if r.deposed(ctx, role) || r.fit() != nil {
		return
	}
	r.opts.Exit(ExitLostLeadership, fmt.Errorf("leader without duties: %w", why))
}

// pass hands on a leadership that this peer must not have. It may have been elected
// a moment ago, for its log, so that no follower has answered it yet. It lets go of
// a leadership that no voter has taken after passFor.
func (r *Runner) pass(ctx context.Context, role raftstore.Role) {
	ctx, cancel := context.WithTimeout(ctx, giveUpLimit)
	defer cancel()
	for end := time.Now().Add(passFor); ctx.Err() == nil && time.Now().Before(end); {
		err := r.opts.StepDown(ctx)
		if err == nil {
			return // Run looks again, should the other not take it
		}
		r.opts.Logger.Debug("transfer leadership failed, retrying", "err", err)
		limited, stop := context.WithTimeout(ctx, passPause)
		over := r.deposed(limited, role)
		stop()
		if over {
			return
		}
	}
	r.opts.Abdicate(ctx)
}

// deposed waits for raft's next notice and says whether it came in time.
func (r *Runner) deposed(ctx context.Context, role raftstore.Role) bool {
	for {
		now, changed := r.opts.Log.Role()
		if now.Change != role.Change {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
