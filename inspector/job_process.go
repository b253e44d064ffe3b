package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector/document"
)

// hookPowerOff is what the log calls the last act of processing.
const hookPowerOff = "power off"

// stepRules is what the log calls the evaluation of the rules.
const stepRules = "rules"

// orLater follows the name of a hook in the log if the others are noted where
// only this host finds them.
const orLater = " or later"

// process carries out a callback in the order of docs/contract.md#callback.
func (j *job) process(ctx context.Context, v fsm.View, rec fsm.Record) error {
	switch rec.State {
	case fsm.NodeProcessing:
		// Déjà vu: the state machine ends the node in error and says why.
		return j.advance(fsm.Advance{Event: fsm.EventProcess, Consume: true})
	case fsm.NodeWaiting, fsm.NodeEnrolling:
	default:
		return j.consume()
	}
	if why := j.lostEverywhere(v); why != "" {
		return j.fail(http.StatusInternalServerError, why)
	}
	if gone, err := j.suspected(); gone || err != nil {
		return err
	}
	data, err := j.document(v, j.request.Document)
	if err != nil {
		return err
	}
	failures, err := j.before(ctx, data)
	if err != nil {
		return err
	}
	if rec.State == fsm.NodeEnrolling {
		if err := j.enroll(ctx, v, rec, data); err != nil {
			problem, ok := asProblem(err)
			if !ok {
				return j.early(ctx, err)
			}
			failures = append(failures, notFoundLine(problem))
		}
		if err := data.Set(keyDiscovered, true); err != nil {
			return err
		}
	}
	if len(failures) > 0 {
		return j.fail(http.StatusBadRequest, failuresHead+strings.Join(failures, "\n"))
	}
	t := j.newTask(data)
	if err := j.fit(ctx, t); err != nil {
		return j.early(ctx, err)
	}
	return j.after(ctx, rec, t)
}

func (j *job) newTask(data *Document) *Task {
	t := NewTask(data, Node{}, j.pool.o.Ironic)
	t.Log = j.log
	return t
}

// lostEverywhere says why a document is given up: every living peer was lost
// with it once, and none is lost twice. It is "" if one has not met it.
func (j *job) lostEverywhere(v fsm.View) string {
	before := j.request.Peers[:len(j.request.Peers)-1]
	if !slices.Contains(before, j.claim.Peer) {
		return ""
	}
	return fmt.Sprintf("given up: every peer that processed the data was lost (%s), the last at hook %s",
		strings.Join(peerNames(v, before), ", "), cmp.Or(j.request.Hook, "unknown"))
}

// document reads a stored document.
func (j *job) document(v fsm.View, hash fsm.Hash) (*Document, error) {
	raw, err := load(j.pool.o.Packer, v, hash)
	if err != nil {
		return nil, err
	}
	return document.Parse(raw)
}

// peerNames returns the names of peers known by their server IDs.
func peerNames(v fsm.View, ids []string) []string {
	names := slices.Clone(ids)
	for i, id := range ids {
		if m, ok := v.Member(id); ok { // else it was removed meanwhile
			names[i] = m.Name
		}
	}
	return names
}

// early ends a callback that could not begin: it is done again, by a peer that
// reaches Ironic, or fails with what Ironic said.
func (j *job) early(ctx context.Context, err error) error {
	if problem, ok := asProblem(err); ok {
		return j.fail(http.StatusBadRequest, problem.Text)
	}
	text, err := j.texted(unread, ctx, err)
	switch {
	case text != "":
		return j.fail(http.StatusInternalServerError, text)
	case Unreachable(err):
		return fmt.Errorf("%w: %w", errGiveBack, err)
	}
	return err
}

// before runs the pre-processing of all hooks and collects what they object to.
// A request that is met for the first time needs no marks: nothing is saved
// yet, and the third to meet it will have left one.
func (j *job) before(ctx context.Context, data *Document) (failures []string, err error) {
	return j.runner().objections(ctx, data, func(h Hook) error {
		if j.request.Attempts > 1 {
			return j.mark(fsm.Mark{Hook: h.Name()})
		}
		return nil
	})
}

// runner runs the hooks of this pool.
func (j *job) runner() hookRunner {
	return hookRunner{hooks: j.by.Hooks, limit: j.pool.o.HookLimit, log: j.log, goroutine: &j.hooks}
}

// after saves `processing` and runs what every hook does with the node. Each
// hook is noted before it runs: a request whose processing was saved is not done
// a second time, so the first worker is the only witness.
func (j *job) after(ctx context.Context, rec fsm.Record, t *Task) error {
	begin := fsm.Advance{Claim: j.claim.Hold(), Event: fsm.EventProcess, Unprocessed: j.keep(), Hook: j.firstHook()}
	if _, err := j.commit(begin); errors.Is(err, fsm.IllegalTransition) {
		j.log.Info("callback dropped: the introspection was restarted meanwhile", "err", err)
		return j.consume()
	} else if err != nil {
		return err
	}
	j.saved = true
	return j.carryOn(ctx, rec, t)
}

// firstHook is what is about to be done when `processing` is saved: all that is
// known if this host never comes back.
func (j *job) firstHook() string {
	if hooks := j.runner().afters(); len(hooks) > 0 {
		return hooks[0].Name() + orLater
	}
	return ""
}

// carryOn does what follows once `processing` is saved.
func (j *job) carryOn(ctx context.Context, rec fsm.Record, t *Task) error {
	defer j.pool.o.Notes.Forget(j.request.Sequence)
	if err := j.apply(ctx, j.runner().afters(), t); err != nil {
		return j.failed(ctx, err)
	}
	return j.finish(ctx, rec, t)
}

// apply runs what hooks do with the node, then the rules. What the data became
// is settled in between: what rules do is not in it.
func (j *job) apply(ctx context.Context, hooks []Hook, t *Task) error {
	for _, h := range hooks {
		if err := j.step(ctx, t, h.Name()); err != nil {
			return err
		}
		if err := j.runner().run(ctx, h, func(ctx context.Context) error { return h.(After).After(ctx, t) }); err != nil {
			return err
		}
	}
	if err := j.settleData(t); err != nil {
		return err
	}
	// Read now: rules that were acknowledged before the callback came are there.
	v := j.pool.o.Log.View()
	if j.pool.o.Rules == nil || v.RuleCount() == 0 {
		return nil
	}
	if err := j.step(ctx, t, stepRules); err != nil {
		return err
	}
	return j.pool.o.Rules.Apply(ctx, v, t)
}

// step notes what is done next and makes sure that it may be done.
func (j *job) step(ctx context.Context, t *Task, name string) error {
	if err := j.note(name); err != nil {
		return &unwritten{err}
	}
	return j.insist(ctx, func() error { return j.fit(ctx, t) })
}

// unwritten is a step that could not be noted in the log: no verdict on the
// data.
type unwritten struct{ err error }

// Error implements error.
func (u *unwritten) Error() string { return u.err.Error() }

// Unwrap returns the cause.
func (u *unwritten) Unwrap() error { return u.err }

// settleData packs what the data became, if that is to be stored.
func (j *job) settleData(t *Task) error {
	if !j.by.Config.StoreData {
		return nil
	}
	changes, err := t.Data.Overlay()
	if err != nil {
		return err
	}
	j.processed, err = j.pool.o.Packer.Pack(changes)
	return err
}

// failed ends the introspection because of a hook or a rule.
func (j *job) failed(ctx context.Context, err error) error {
	var problem *Problem
	var unsaid *unwritten
	switch {
	case ctx.Err() != nil, errors.Is(err, ErrNotAllowed), errors.As(err, &unsaid):
		return err
	case errors.As(err, &problem):
		return j.fail(http.StatusBadRequest, problem.Text)
	case j.request.Event == fsm.EventReapply: // no caller waits for it
		return j.fail(http.StatusInternalServerError, err.Error())
	default:
		return j.fail(http.StatusInternalServerError, fmt.Sprintf("Unexpected exception %s during processing: %v", class(err), err))
	}
}

// finish stores the result, lets the callback be answered, switches the node
// off and ends the introspection.
func (j *job) finish(ctx context.Context, rec fsm.Record, t *Task) error {
	end := fsm.Advance{Event: fsm.EventFinish, Answer: fsm.Answer{Status: http.StatusOK}, Processed: j.processed, Consume: true}
	if !rec.ManageBoot || !j.by.Config.Processing.PowerOff || t.Deployed() {
		return j.advance(end)
	}
	if err := j.note(hookPowerOff); err != nil { // what the log says next must not be taken back
		return err
	}
	// The ramdisk gets its answer before its machine is switched off.
	if err := j.mark(fsm.Mark{Hook: hookPowerOff, Answer: end.Answer, Processed: end.Processed}); err != nil {
		return err
	}
	j.answered = true
	return j.endWithPowerOff(ctx, t)
}

// complete reports whether the log holds the callback's success: hooks, rules
// and data are done, and only the power-off of finish is left. Switching off is
// idempotent, so unlike the rest of processing it may be done by another worker.
func (j *job) complete(rec fsm.Record) bool {
	return j.request.Event == fsm.EventProcess && rec.State == fsm.NodeProcessing &&
		rec.Delivered.Request == j.request.Sequence && rec.Delivered.Answer.Status == http.StatusOK
}

// handsOver reports whether this peer stops and another may do what is left.
func (j *job) handsOver() bool { return j.answered && j.pool.stop.claims.Err() != nil }

// resume ends a complete introspection whose worker was lost during the
// power-off, or gave the request back because its peer stopped.
func (j *job) resume(ctx context.Context) error {
	defer j.pool.o.Notes.Forget(j.request.Sequence)
	j.saved, j.answered = true, true
	j.log.Info("resuming the power-off of a complete introspection", "tries", j.request.Attempts)
	return j.endWithPowerOff(ctx, &Task{Ironic: j.pool.o.Ironic, Log: j.log})
}

// endWithPowerOff switches the node off and ends the introspection, whose
// callback has its answer.
func (j *job) endWithPowerOff(ctx context.Context, t *Task) error {
	err := j.insist(ctx, func() error { return j.off(ctx, t) })
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, ErrNotAllowed):
		return err
	case j.handsOver() && Unreachable(err):
		return fmt.Errorf("%w: %w", errGiveBack, err)
	case strings.EqualFold(t.Node().Provision, "enroll"):
		j.log.Info("power off node failed; it has no power management yet", "err", err)
	default:
		return j.advance(fsm.Advance{Event: fsm.EventError, Consume: true,
			Error: clip(fmt.Sprintf("Failed to power off node %s, check its power management configuration: %v", t.Node().UUID, err))})
	}
	return j.advance(fsm.Advance{Event: fsm.EventFinish, Consume: true})
}

// note leaves word of what this worker is about to do, in the log if there is no
// other place.
func (j *job) note(hook string) error {
	err := j.pool.o.Notes.Note(j.request.Sequence, hook)
	if err == nil {
		return nil
	}
	j.log.Warn("write crash note to file failed, committing it to the log", "hook", hook, "err", err)
	return j.mark(fsm.Mark{Hook: hook})
}

// mark notes in the log what this worker is about to do.
func (j *job) mark(m fsm.Mark) error {
	m.Claim = j.claim.Hold()
	_, err := j.commit(m)
	return err
}
