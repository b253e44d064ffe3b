package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// suspected gives a callback back if this host's last process ended when it
// examined the data: the log did not know of that and counts it now, as if the
// process had been lost with a claim.
func (j *job) suspected() (gone bool, err error) {
	if j.pool.o.Memory == nil || j.pool.o.Log.View().Admits(introspection.Decline{}) != nil {
		return false, nil
	}
	hook, yes := j.pool.o.Memory.Suspect(j.request.Document)
	if !yes {
		return false, nil
	}
	j.log.Warn("previous process of this host ended while it examined the data; another peer processes it", "hook", hook)
	_, err = j.out.commit(introspection.Decline{Claim: j.claim.Hold(), Hook: hook})
	return true, err
}

// hookPowerOff is what the log calls the last act of processing.
const hookPowerOff = "power off"

// process carries out a callback in the order of docs/contract.md#callback.
func (j *job) process(ctx context.Context, v fsm.View, rec introspection.Record) error {
	switch rec.State {
	case introspection.NodeProcessing:
		// Déjà vu: the state machine ends the node in error and says why.
		return j.out.advance(introspection.Advance{Event: introspection.EventProcess, Consume: true})
	case introspection.NodeWaiting, introspection.NodeEnrolling:
	default:
		return j.out.consume()
	}
	if why := j.lostEverywhere(v); why != "" {
		return j.out.fail(http.StatusInternalServerError, why)
	}
	if gone, err := j.suspected(); gone || err != nil {
		return err
	}
	data, err := j.document(v, j.request.Document)
	if err != nil {
		return err
	}
	failures, err := j.hooks.before(ctx, data)
	if err != nil {
		return err
	}
	if rec.State == introspection.NodeEnrolling {
		if err := j.enroll(ctx, v, rec, data); err != nil {
			problem, ok := errors.AsType[*document.Problem](err)
			if !ok {
				return j.early(ctx, err)
			}
			failures = append(failures, inspector.NotFoundLine(problem.Text))
		}
		if err := data.Set(keyDiscovered, true); err != nil {
			return err
		}
	}
	if len(failures) > 0 {
		return j.out.fail(http.StatusBadRequest, inspector.FailuresHead+strings.Join(failures, "\n"))
	}
	t := j.own(newTask(data))
	if err := j.node.fit(ctx, t); err != nil {
		return j.early(ctx, err)
	}
	return j.runAfterHooks(ctx, rec, t)
}

// lostEverywhere says why a document is given up: every living peer was lost
// with it once, and none is lost twice. It is "" if one has not met it.
func (a assignment) lostEverywhere(v fsm.View) string {
	before := a.request.Peers[:len(a.request.Peers)-1]
	if !slices.Contains(before, a.claim.Peer) {
		return ""
	}
	names := slices.Clone(before)
	for i, id := range before {
		if m, ok := v.Member(id); ok { // else it was removed meanwhile
			names[i] = m.Name
		}
	}
	return fmt.Sprintf("given up: every peer that processed the data was lost (%s), the last at hook %s",
		strings.Join(names, ", "), cmp.Or(a.request.Hook, "unknown"))
}

// early ends a callback that could not begin: it is done again, by a peer that
// reaches Ironic, or fails with what Ironic said.
func (j *job) early(ctx context.Context, err error) error {
	if problem, ok := errors.AsType[*document.Problem](err); ok {
		return j.out.fail(http.StatusBadRequest, problem.Text)
	}
	text, err := j.node.texted(unread, ctx, err)
	switch {
	case text != "":
		return j.out.fail(http.StatusInternalServerError, text)
	case ironic.Unjudged(err):
		return fmt.Errorf("%w: %w", errGiveBack, err)
	}
	return err
}

// runAfterHooks saves `processing` and runs what every hook does with the node. Each
// hook is noted before it runs: a request whose processing was saved is not done
// a second time, so the first worker is the only witness.
func (j *job) runAfterHooks(ctx context.Context, rec introspection.Record, t *inspector.Task) error {
	begin := introspection.Advance{Claim: j.claim.Hold(), Event: introspection.EventProcess,
		Unprocessed: j.out.hashToStore(), Hook: j.hooks.firstHook()}
	if _, err := j.out.commit(begin); errors.Is(err, fsm.IllegalTransition) {
		j.log.Info("callback dropped: the introspection was restarted meanwhile", "err", err)
		return j.out.consume()
	} else if err != nil {
		return err
	}
	j.out.saved = true
	return j.carryOn(ctx, rec, t)
}

// carryOn does what follows once `processing` is saved.
func (j *job) carryOn(ctx context.Context, rec introspection.Record, t *inspector.Task) error {
	defer j.pool.o.Notes.Forget(j.request.Sequence)
	if err := j.hooks.apply(ctx, t); err != nil {
		return j.failed(ctx, err)
	}
	return j.finish(ctx, rec, t)
}

// failed ends the introspection because of a hook or a rule.
func (j *job) failed(ctx context.Context, err error) error {
	var problem *document.Problem
	var unsaid *unwritten
	switch {
	case ctx.Err() != nil, errors.Is(err, ironic.ErrNotAllowed), errors.As(err, &unsaid):
		return err
	case errors.As(err, &problem):
		return j.out.fail(http.StatusBadRequest, problem.Text)
	case j.request.Event == introspection.EventReapply: // no caller waits for it
		return j.out.fail(http.StatusInternalServerError, err.Error())
	default:
		return j.out.fail(http.StatusInternalServerError,
			fmt.Sprintf("Unexpected exception %s during processing: %v", inspector.ErrorClass(err), err))
	}
}

// finish stores the result, lets the callback be answered, switches the node
// off and ends the introspection.
func (j *job) finish(ctx context.Context, rec introspection.Record, t *inspector.Task) error {
	end := introspection.Advance{Event: introspection.EventFinish, Answer: introspection.Answer{Status: http.StatusOK},
		Processed: j.out.processed, Consume: true}
	if !rec.ManageBoot || !j.by.Config.Processing.PowerOff || t.Node().Deployed() {
		return j.out.advance(end)
	}
	if err := j.out.noteHook(hookPowerOff); err != nil { // what the log says next must not be taken back
		return err
	}
	// The ramdisk gets its answer before its machine is switched off.
	if err := j.out.mark(
		introspection.Mark{Hook: hookPowerOff, Answer: end.Answer, Processed: end.Processed}); err != nil {
		return err
	}
	j.out.answered = true
	return j.endWithPowerOff(ctx, t)
}

// complete reports whether the log holds the callback's success: hooks, rules
// and data are done, and only the power-off of finish is left. Switching off is
// idempotent, so unlike the rest of processing it may be done by another worker.
func (j *job) complete(rec introspection.Record) bool {
	return j.request.Event == introspection.EventProcess && rec.State == introspection.NodeProcessing &&
		rec.Delivered.Request == j.request.Sequence && rec.Delivered.Answer.Status == http.StatusOK
}

// resume ends a complete introspection whose worker was lost during the
// power-off, or gave the request back because its peer stopped.
func (j *job) resume(ctx context.Context) error {
	defer j.pool.o.Notes.Forget(j.request.Sequence)
	j.out.saved, j.out.answered = true, true
	j.log.Info("resuming the power-off of a complete introspection", "tries", j.request.Attempts)
	return j.endWithPowerOff(ctx, &inspector.Task{Ironic: j.pool.o.Ironic, Log: j.log})
}

// endWithPowerOff switches the node off and ends the introspection, whose
// callback has its answer.
func (j *job) endWithPowerOff(ctx context.Context, t *inspector.Task) error {
	err := j.node.insist(ctx, func() error { return j.node.off(ctx, t) })
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, ironic.ErrNotAllowed):
		return err
	case j.out.handsOver() && ironic.Unjudged(err):
		return fmt.Errorf("%w: %w", errGiveBack, err)
	case errors.Is(err, ironic.ErrStaysOn):
		j.log.Info("power off node skipped; its disable_power_off is true, and its ramdisk runs on", "err", err)
	case strings.EqualFold(t.Node().Provision, "enroll"):
		j.log.Info("power off node failed; it has no power management yet", "err", err)
	default:
		return j.out.advance(introspection.Advance{Event: introspection.EventError, Consume: true,
			Error: inspector.Clip(fmt.Sprintf("Failed to power off node %s, check its power management configuration: %v",
				t.Node().UUID, err))})
	}
	return j.out.advance(introspection.Advance{Event: introspection.EventFinish, Consume: true})
}
