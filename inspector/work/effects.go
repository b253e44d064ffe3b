package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of what stands between a worker and the world.
const (
	// freshFor is how old a reading of a node may be when something is done to
	// the node because of it.
	freshFor = time.Second
	// renewalLimit is how long a worker whose session may be over waits to hear
	// of it, and renewalPoll how often it looks.
	renewalLimit = time.Minute
	renewalPoll  = 50 * time.Millisecond
	// busyWait is the pause before an Ironic that is busy is asked the same again: some
	// hundred nodes may wait for it.
	busyWait = 5 * time.Second
)

// unread is the error of a node that Ironic does not show.
const unread = "Failed to read the node from Ironic: %v"

// errLate is said of a session that was last renewed too long ago: it may be
// over by now.
var errLate = errors.New("the session was last renewed too long ago")

// effects are what a worker does to its node through Ironic, and what it makes sure of
// before each.
type effects struct {
	assignment
	out    *outcome
	began  time.Time // what is under way, for the judgement of its failure
	failed bool      // that was tried before
}

// allowed is the check before every outside effect: the claim is still held, by
// the log as this peer knows it and by this peer's own clock (docs/design.md#guard). If
// the session may be over, it waits until that is known: else the loss of a
// leader that takes the others a while would fail what they are processing.
func (e *effects) allowed(ctx context.Context) error {
	if ctx.Err() != nil { // a power call that outlives ctx is not tried again
		return fmt.Errorf("%w: %w", ironic.ErrNotAllowed, ctx.Err())
	}
	for began := time.Now(); ; {
		err := e.current()
		if err == nil || errors.Is(err, errLate) {
			v := e.pool.o.Log.View()
			if _, held := v.Claim(e.claim.Hold()); !held && inspector.Covers(v, e.claim.Token) {
				return fmt.Errorf("%w: %w", ironic.ErrNotAllowed, errClaimLost)
			}
		}
		if !errors.Is(err, errLate) || time.Since(began) >= renewalLimit {
			return err
		}
		if !pace.Wait(ctx, renewalPoll) {
			return err
		}
	}
}

// current says whether the session that this worker acts in is this peer's still.
// It is all that there is to ask before there is a claim.
func (e *effects) current() error {
	session := e.pool.o.Session
	if session.ID() != e.claim.Session {
		return fmt.Errorf("%w: this peer's session has ended", ironic.ErrNotAllowed)
	}
	if left := time.Until(session.Deadline()); left <= 0 {
		return fmt.Errorf("%w: %w (%v over)", ironic.ErrNotAllowed, errLate, -left.Round(time.Millisecond))
	}
	return nil
}

// readNode reads the task's node unless that was done a moment ago.
func (e *effects) readNode(ctx context.Context, t *inspector.Task) error {
	return t.Refresh(freshFor, func() (ironic.Node, error) { return e.pool.o.Ironic.Node(ctx, e.claim.Node) })
}

// fit makes sure, before something is done to the node, that there is time left and
// that no other user has the node by now. A *Problem ends the introspection.
func (e *effects) fit(ctx context.Context, t *inspector.Task) error {
	v := e.pool.o.Log.View()
	if rec, ok := v.Record(e.claim.Node); ok && overdue(v, rec) {
		return document.Failed(textTimeout)
	}
	if err := e.readNode(ctx, t); err != nil {
		return err
	}
	return e.admissible(t.Node())
}

// admissible refuses a node that another user has. Stored data may be processed
// again even then, as by the original: the node is not switched.
func (e *effects) admissible(n ironic.Node) error {
	if e.request.Event == introspection.EventReapply {
		return nil
	}
	return inspector.CheckProvision(n, e.by.Config.Processing.PermitActiveIntrospection)
}

// texted makes the contract's text of a failed call of Ironic, or of a Problem.
// What is no verdict, a lost claim or an Ironic that is away, stays an error.
func (e *effects) texted(format string, ctx context.Context, err error) (string, error) {
	if e.undecided(ctx, err) {
		return "", cmp.Or(ctx.Err(), err)
	}
	return e.verdict(format, err)
}

// undecided reports whether an error is no verdict.
func (e *effects) undecided(ctx context.Context, err error) bool {
	if errors.As(err, new(*document.Problem)) {
		return false
	}
	return ctx.Err() != nil || errors.Is(err, ironic.ErrNotAllowed) || e.unjudged(ctx, err)
}

// verdict is the text of one that is.
func (e *effects) verdict(format string, err error) (string, error) {
	var said *ironic.Error
	var problem *document.Problem
	switch {
	case errors.As(err, &problem):
		return problem.Text, nil
	case errors.Is(err, ironic.ErrNoNode):
		return fmt.Sprintf("Node %s was not found in Ironic", e.claim.Node), nil
	case errors.As(err, &said):
		return fmt.Sprintf(format, err), nil
	default:
		return "", err
	}
}

// unjudged decides what becomes of a request that failed because Ironic did
// not judge it: it waits for a peer that reaches Ironic, or until Ironic is not busy
// any more, unless Ironic is there after all and fails at this one thing. It is asked
// once about an error: a little later Ironic may answer again.
func (e *effects) unjudged(ctx context.Context, err error) bool {
	return ironic.Busy(err) || ironic.Unjudged(err) && !e.pool.o.Health.Singled(ctx, e.began)
}

// errInUse is the error of a node that another user has by now.
var errInUse = errors.New("the node is in use by others")

// off switches the node off, unless another user has it by now.
func (e *effects) off(ctx context.Context, t *inspector.Task) error {
	unused := func(ctx context.Context) error {
		if err := e.readNode(ctx, t); err != nil {
			return err
		}
		if e.admissible(t.Node()) != nil || t.Node().Deployed() {
			return errInUse
		}
		return nil
	}
	err := unused(ctx)
	if err == nil {
		err = e.power(ironic.WithReread(ctx, unused), t, ironic.PowerOff)
	}
	if errors.Is(err, errInUse) {
		e.log.Warn("power off skipped: node is in use by others", "provision_state", t.Node().Provision)
		return nil
	}
	return err
}

// power sends the task's node a power command. An interruption of the worker
// does not cut a command that is in flight: whether the machine was switched
// would be unknown, and the next worker would switch it again. The command is
// not retried then, since every try asks allowed first.
func (e *effects) power(ctx context.Context, t *inspector.Task, target string) error {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(e.pool.stop.calls, cancel)()
	return e.pool.o.Ironic.SetPower(call, t.Node().UUID, target)
}

// insist does what cannot be given back any more: while Ironic is away, or busy, it waits,
// as requests do that no worker has begun.
func (e *effects) insist(ctx context.Context, do func() error) error {
	err := do()
	for err != nil && e.unjudged(ctx, err) && e.ironicBack(ctx, err) {
		e.again()
		err = do()
	}
	return err
}

// ironicBack waits a little, longer after a call at which Ironic was busy, and until Ironic
// can be reached from here, and reports whether that was in time. The worker is free for others
// meanwhile. A peer that stops does not wait for what another peer may finish. A hook's limit
// does not run meanwhile.
func (e *effects) ironicBack(ctx context.Context, err error) bool {
	defer inspector.StandStill(ctx)()
	if ironic.Busy(err) {
		e.noteBusy(err)
	}
	for began := time.Now(); ; {
		v := e.pool.o.Log.View()
		rec, ok := v.Record(e.claim.Node)
		if !ok || overdue(v, rec) || e.out.handsOver() || e.allowed(ctx) != nil || e.pause(ctx, turnWait) != nil {
			return false
		}
		if e.pool.o.Health.Err() == nil && (!ironic.Busy(err) || time.Since(began) >= busyWait) {
			return true
		}
	}
}

// noteBusy keeps what a busy Ironic said last, and logs the first of it.
func (e *effects) noteBusy(err error) {
	if e.out.busy == nil {
		e.log.Warn("Ironic is busy: request waits", "err", err)
	}
	e.out.busy = err
}

// here reports whether a request that is to be given back, because a call of Ironic
// had no answer, is tried by this worker once more, after a pause: as long as Ironic
// answers this peer's questions another peer could do no more, and to release and
// claim the request would be two entries of the log a try. The worker is not free
// meanwhile: many such requests would all be tried at once. Where Ironic is busy it is, since
// a conductor that serves one node may be away for as long as the introspection has.
func (e *effects) here(ctx context.Context, err error) bool {
	there := func() bool { return e.pool.o.Health.Err() == nil && e.pool.stop.claims.Err() == nil }
	switch {
	case !errors.Is(err, errGiveBack), !ironic.Unjudged(err), !there():
		return false
	case ironic.Busy(err):
		e.noteBusy(err)
		return e.rest(ctx, busyWait) == nil && there()
	}
	return pace.Wait(ctx, turnWait) && there()
}

// again begins another try. All tries after the first failure are judged as one, and
// from the newest absence of Ironic on: a try that fails at once is over before
// Ironic was asked anything.
func (e *effects) again() {
	if !e.failed || e.pool.o.Health.LostSince(e.began) {
		e.failed, e.began = true, time.Now()
	}
}

// pause waits, and frees this worker for other requests meanwhile.
func (e *effects) pause(ctx context.Context, d time.Duration) error {
	e.pool.release()
	defer e.pool.acquire()
	if !pace.Wait(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// rest is a pause that ends when this peer stops.
func (e *effects) rest(ctx context.Context, d time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.pool.stop.claims, cancel)()
	return e.pause(waiting, d)
}
