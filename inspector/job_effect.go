package inspector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm"
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
)

// errLate is said of a session that was last renewed too long ago: it may be
// over by now.
var errLate = errors.New("the session was last renewed too long ago")

// allowed is the check before every outside effect: the claim is still held, by
// the log as this peer knows it and by this peer's own clock (docs/design.md#guard). If
// the session may be over, it waits until that is known: else the loss of a
// leader that takes the others a while would fail what they are processing.
func (j *job) allowed(ctx context.Context) error {
	if ctx.Err() != nil { // a power call that outlives ctx is not tried again
		return fmt.Errorf("%w: %w", ErrNotAllowed, ctx.Err())
	}
	for began := time.Now(); ; {
		err := j.entitled()
		if !errors.Is(err, errLate) || time.Since(began) >= renewalLimit {
			return err
		}
		select {
		case <-time.After(renewalPoll):
		case <-ctx.Done():
			return err
		}
	}
}

// entitled says whether this worker may act at this moment.
func (j *job) entitled() error {
	err := j.current()
	if err != nil && !errors.Is(err, errLate) {
		return err
	}
	v := j.pool.o.Log.View()
	if _, held := v.Claim(j.claim.Hold()); !held && covers(v, j.claim.Token) {
		return fmt.Errorf("%w: %w", ErrNotAllowed, errClaimLost)
	}
	return err
}

// current says whether the session that this worker acts in is this peer's still.
// It is all that there is to ask before there is a claim.
func (j *job) current() error {
	session := j.pool.o.Session
	if session.ID() != j.claim.Session {
		return fmt.Errorf("%w: this peer's session has ended", ErrNotAllowed)
	}
	if left := time.Until(session.Deadline()); left <= 0 {
		return fmt.Errorf("%w: %w (%v over)", ErrNotAllowed, errLate, -left.Round(time.Millisecond))
	}
	return nil
}

// look reads the task's node unless that was done a moment ago.
func (j *job) look(ctx context.Context, t *Task) error {
	began := time.Now()
	if began.Sub(t.read) < freshFor {
		return nil
	}
	node, err := t.Ironic.Node(ctx, j.claim.Node)
	if err == nil {
		t.node, t.read = node, began
	}
	return err
}

// fit makes sure, before something is done to the node, that there is time left and
// that no other user has the node by now. A *Problem ends the introspection.
func (j *job) fit(ctx context.Context, t *Task) error {
	v := j.pool.o.Log.View()
	if rec, ok := v.Record(j.claim.Node); ok && overdue(v, rec) {
		return Failed(textTimeout)
	}
	if err := j.look(ctx, t); err != nil {
		return err
	}
	return j.admissible(t.node)
}

// admissible refuses a node that another user has. Stored data may be processed
// again even then, as by the original: the node is not switched.
func (j *job) admissible(n Node) error {
	if j.request.Event == fsm.EventReapply {
		return nil
	}
	return checkProvision(n, j.by.Config.Processing.PermitActiveIntrospection)
}

// texted makes the contract's text of a failed call of Ironic, or of a Problem.
// What is no verdict, a lost claim or an Ironic that is away, stays an error.
func (j *job) texted(format string, ctx context.Context, err error) (string, error) {
	var said *IronicError
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return problem.Text, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, ErrNotAllowed), j.unreachable(ctx, err):
		return "", err
	case errors.Is(err, ErrNoNode):
		return fmt.Sprintf("Node %s was not found in Ironic", j.claim.Node), nil
	case errors.As(err, &said):
		return fmt.Sprintf(format, err), nil
	default:
		return "", err
	}
}

// unreachable decides what becomes of a request that failed because Ironic did
// not answer: it waits for a peer that reaches Ironic, unless Ironic is there
// after all and fails at this one thing. It is asked once about an error: a little
// later Ironic may answer again.
func (j *job) unreachable(ctx context.Context, err error) bool {
	return Unreachable(err) && !j.pool.o.Health.Singled(ctx, j.began)
}

// off switches the node off, unless another user has it by now.
func (j *job) off(ctx context.Context, t *Task) error {
	if err := j.look(ctx, t); err != nil {
		return err
	}
	if j.admissible(t.node) != nil || t.Deployed() {
		j.log.Warn("power off skipped: node is in use by others", "provision_state", t.node.Provision)
		return nil
	}
	return j.power(ctx, t, PowerOff)
}

// power sends the task's node a power command. An interruption of the worker
// does not cut a command that is in flight: whether the machine was switched
// would be unknown, and the next worker would switch it again. The command is
// not retried then, since every try asks allowed first.
func (j *job) power(ctx context.Context, t *Task, target string) error {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(j.pool.stop.calls, cancel)()
	return t.Ironic.SetPower(call, t.node.UUID, target)
}

// insist does what cannot be given back any more: while Ironic is away it waits, as
// requests do that no worker has begun.
func (j *job) insist(ctx context.Context, do func() error) error {
	err := do()
	for err != nil && j.unreachable(ctx, err) && j.ironicBack(ctx) {
		j.began = time.Now()
		err = do()
	}
	return err
}

// ironicBack waits until Ironic can be reached from here again and reports
// whether that was in time. The worker is free for others meanwhile. A peer that
// stops does not wait for what another peer may finish.
func (j *job) ironicBack(ctx context.Context) bool {
	for j.pool.o.Health.Err() != nil {
		v := j.pool.o.Log.View()
		if rec, ok := v.Record(j.claim.Node); !ok || overdue(v, rec) || j.handsOver() || j.allowed(ctx) != nil || j.pause(ctx, turnWait) != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// pause waits, and frees this worker for other requests meanwhile.
func (j *job) pause(ctx context.Context, d time.Duration) error {
	j.pool.release()
	defer j.pool.acquire()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
