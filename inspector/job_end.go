package inspector

import (
	"context"
	"errors"

	"github.com/trivet-ha/trivet/fsm"
)

// abort carries out an accepted abort: the node is switched off if Trivet had
// switched it on, and the introspection ends in error either way.
func (j *job) abort(ctx context.Context, rec fsm.Record) error {
	if rec.State != fsm.NodeAborting {
		return j.advance(fsm.Advance{Event: fsm.EventAbort, Consume: true})
	}
	if rec.ManageBoot {
		if err := j.switchOff(ctx); err != nil {
			return err
		}
	}
	return j.advance(fsm.Advance{Event: fsm.EventAbortEnd, Consume: true})
}

// switchOff returns an error only if this worker must not go on; that the node
// could not be switched off is logged and changes nothing (docs/contract.md#callback).
func (j *job) switchOff(ctx context.Context) error {
	err := j.off(ctx, &Task{Ironic: j.pool.o.Ironic})
	if ctx.Err() != nil || errors.Is(err, ErrNotAllowed) {
		return err
	}
	if err != nil {
		j.log.Warn("power off aborted node failed", "err", err)
	}
	return nil
}

// remove carries out the deletion of a node that Ironic no longer lists, once
// Ironic says of this very node that it is gone. If anything is in doubt the
// request is consumed all the same: the next synchronisation asks again.
func (j *job) remove(ctx context.Context) error {
	_, err := j.pool.o.Ironic.Node(ctx, j.claim.Node)
	if !errors.Is(err, ErrNoNode) {
		j.log.Info("delete of node record skipped: Ironic does not confirm that the node is gone", "err", err)
		return j.consume()
	}
	_, err = j.commit(fsm.DeleteNode{Node: j.claim.Node, Claim: j.claim.Hold()})
	if errors.Is(err, errClaimLost) || err == nil {
		return err
	}
	j.log.Info("delete of node record skipped", "err", err)
	return j.consume()
}
