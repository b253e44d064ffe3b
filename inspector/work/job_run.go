package work

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// work carries out one claimed request. The claim always ends: with the request
// done, failed or given back, or because it was lost.
func (j *job) work() {
	defer j.hooks.runner.Stop()
	ctx := j.pool.stop.tasks
	guarded := ironic.WithGuard(ctx, func() error { return j.node.allowed(ctx) })
	err := j.guarded(guarded)
	for j.node.here(ctx, err) {
		j.node.again()
		err = j.guarded(guarded)
	}
	if err == nil {
		return
	}
	var unwritten error // why the log does not have how the request ended
	switch {
	case errors.Is(err, errClaimLost):
		j.log.Warn("worker lost its claim and stops", "reason", err)
	case (!j.out.saved || j.out.answered) && (errors.Is(err, errGiveBack) || halted(err)):
		j.log.Info("request released", "reason", err)
		_, unwritten = j.out.commit(introspection.Release{Claim: j.claim.Hold()})
	case halted(err):
		unwritten = j.out.fail(http.StatusInternalServerError,
			fmt.Sprintf("interrupted: peer %s had to stop while it processed the data (%v); start the introspection again",
				j.pool.o.Peer, err))
	default:
		unwritten = j.out.fail(http.StatusInternalServerError, err.Error())
	}
	if unwritten != nil && !errors.Is(unwritten, errClaimLost) {
		j.log.Error("commit outcome of request failed, releasing the request", "err", unwritten)
		j.out.giveBack()
	}
}

// guarded runs the request and turns a panic into an error.
func (j *job) guarded(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("worker panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("unexpected exception panic: %v", p)
		}
	}()
	return j.carryOut(ctx)
}

// carryOut waits until this peer's state holds the claim and carries the request out.
func (j *job) carryOut(ctx context.Context) error {
	v, err := j.pool.o.Notifier.Wait(ctx, func(v fsm.View) bool { return inspector.Covers(v, j.claim.Token) })
	if err != nil {
		return err
	}
	rec, ok := v.Record(j.claim.Node)
	if !ok || j.request.Sequence < rec.Begun {
		return j.out.consume() // the node vanished, or this belongs to an earlier introspection
	}
	if j.complete(rec) {
		return j.resume(ctx)
	}
	if overdue(v, rec) && j.request.Event != introspection.EventTimeout && j.request.Event != introspection.EventDelete {
		if rec.State == introspection.NodeAborting {
			return j.out.advance(introspection.Advance{Event: introspection.EventAbortEnd, Consume: true})
		}
		return j.out.fail(http.StatusBadRequest, textTimeout)
	}
	if j.task != nil {
		return j.carryOn(ctx, rec, j.task)
	}
	switch j.request.Event {
	case introspection.EventStart:
		return j.start(ctx, rec)
	case introspection.EventProcess:
		return j.process(ctx, v, rec)
	case introspection.EventReapply:
		return j.reapply(ctx, v, rec)
	case introspection.EventAbort:
		return j.abort(ctx, rec)
	case introspection.EventTimeout:
		j.out.logFailure(textTimeout)
		return j.out.advance(introspection.Advance{Event: introspection.EventTimeout, Consume: true})
	case introspection.EventDelete:
		return j.remove(ctx)
	default:
		j.log.Error("request of an unknown kind dropped")
		return j.out.consume()
	}
}

// abort carries out an accepted abort: the node is switched off if Trivet had
// switched it on, and the introspection ends in error either way; that the node could
// not be switched off is logged and changes nothing (docs/contract.md#callback).
func (j *job) abort(ctx context.Context, rec introspection.Record) error {
	if rec.State != introspection.NodeAborting {
		return j.out.advance(introspection.Advance{Event: introspection.EventAbort, Consume: true})
	}
	if rec.ManageBoot {
		err := j.node.off(ctx, &inspector.Task{Ironic: j.pool.o.Ironic})
		if err != nil && (ctx.Err() != nil || errors.Is(err, ironic.ErrNotAllowed)) {
			return err
		}
		if err != nil {
			j.log.Warn("power off aborted node failed", "err", err)
		}
	}
	return j.out.advance(introspection.Advance{Event: introspection.EventAbortEnd, Consume: true})
}

// remove carries out the deletion of a node that Ironic no longer lists, once
// Ironic says of this very node that it is gone. If anything is in doubt the
// request is consumed all the same: the next synchronisation asks again.
func (j *job) remove(ctx context.Context) error {
	_, err := j.pool.o.Ironic.Node(ctx, j.claim.Node)
	if !errors.Is(err, ironic.ErrNoNode) {
		j.log.Info("delete of node record skipped: Ironic does not confirm that the node is gone", "err", err)
		return j.out.consume()
	}
	_, err = j.out.commit(introspection.DeleteNode{Node: j.claim.Node, Claim: j.claim.Hold()})
	if errors.Is(err, errClaimLost) || err == nil {
		return err
	}
	j.log.Info("delete of node record skipped", "err", err)
	return j.out.consume()
}
