package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// hookPowerOff is what the log calls the last act of processing.
const hookPowerOff = "power off"

// orLater follows the name of a hook in the log if the others are noted where
// only this host finds them.
const orLater = " or later"

// process carries out a callback in the order of the contract's §5.
func (j *job) process(ctx context.Context, v fsm.View, rec fsm.Record) error {
	switch rec.State {
	case fsm.NodeProcessing:
		// Déjà vu: the state machine ends the node in error and says why.
		return j.advance(fsm.Advance{Event: fsm.EventProcess, Consume: true})
	case fsm.NodeWaiting, fsm.NodeEnrolling:
	default:
		return j.consume()
	}
	if before := j.request.Peers[:len(j.request.Peers)-1]; slices.Contains(before, j.claim.Peer) {
		// Every living peer was lost with this document once; none is lost twice.
		return j.fail(http.StatusInternalServerError, fmt.Sprintf("given up: every peer that processed the data was lost (%s), the last at hook %s",
			strings.Join(peerNames(v, before), ", "), cmp.Or(j.request.Hook, "unknown")))
	}
	raw, err := load(j.crew.o.Packer, v, j.request.Document)
	if err != nil {
		return err
	}
	data, err := ParseDocument(raw)
	if err != nil {
		return err
	}
	if failures, err := j.before(ctx, data); err != nil {
		return err
	} else if len(failures) > 0 {
		return j.fail(http.StatusBadRequest, failuresHead+strings.Join(failures, "\n"))
	}
	t := NewTask(data, Node{}, j.crew.o.Ironic)
	t.Log = j.log
	if err := j.fit(ctx, t); err != nil {
		return j.early(ctx, err)
	}
	return j.after(ctx, rec, t)
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
	for _, h := range j.crew.o.Hooks {
		b, ok := h.(Before)
		if !ok {
			continue
		}
		if j.request.Attempts > 1 {
			if err := j.mark(fsm.Mark{Hook: h.Name()}); err != nil {
				return nil, err
			}
		}
		err := j.hook(ctx, h, func(ctx context.Context) error { return b.Before(ctx, data) })
		var problem *Problem
		var endless *endlessError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &problem):
			failures = append(failures, fmt.Sprintf("Preprocessing hook %s: %s", h.Name(), problem.Text))
		default:
			failures = append(failures, fmt.Sprintf("Unexpected exception %s during preprocessing in hook %s: %v", class(err), h.Name(), err))
		}
		if errors.As(err, &endless) {
			break // the data is that hook's: another one would share it with a goroutine that runs on
		}
	}
	return failures, nil
}

// after saves `processing` and runs what every hook does with the node. Each
// hook is noted before it runs: a request whose processing was saved is not done
// a second time, so the first worker is the only witness.
func (j *job) after(ctx context.Context, rec fsm.Record, t *Task) error {
	var hooks []Hook
	for _, h := range j.crew.o.Hooks {
		if _, ok := h.(After); ok {
			hooks = append(hooks, h)
		}
	}
	begin := fsm.Advance{Claim: j.claim.Hold(), Event: fsm.EventProcess, Unprocessed: j.keep()}
	if len(hooks) > 0 {
		begin.Hook = hooks[0].Name() + orLater // all that is known if this host never comes back
	}
	if _, err := j.commit(begin); errors.Is(err, fsm.IllegalTransition) {
		j.log.Info("the introspection was started anew meanwhile; callback dropped", "err", err)
		return j.consume()
	} else if err != nil {
		return err
	}
	j.saved = true
	defer j.crew.o.Notes.Forget(j.request.Sequence)
	for _, h := range hooks {
		if err := j.note(h.Name()); err != nil {
			return err
		}
		if err := j.insist(ctx, func() error { return j.fit(ctx, t) }); err != nil {
			return j.failed(ctx, err)
		}
		err := j.hook(ctx, h, func(ctx context.Context) error { return h.(After).After(ctx, t) })
		if err != nil {
			return j.failed(ctx, err)
		}
	}
	return j.finish(ctx, rec, t)
}

// failed ends the introspection because of a hook.
func (j *job) failed(ctx context.Context, err error) error {
	var problem *Problem
	switch {
	case ctx.Err() != nil, errors.Is(err, ErrNotAllowed):
		return err
	case errors.As(err, &problem):
		return j.fail(http.StatusBadRequest, problem.Text)
	default:
		return j.fail(http.StatusInternalServerError, fmt.Sprintf("Unexpected exception %s during processing: %v", class(err), err))
	}
}

// finish stores the result, lets the callback be answered, switches the node
// off and ends the introspection.
func (j *job) finish(ctx context.Context, rec fsm.Record, t *Task) error {
	end := fsm.Advance{Event: fsm.EventFinish, Answer: fsm.Answer{Status: http.StatusOK}, Consume: true}
	if j.crew.o.Config.StoreData {
		changes, err := t.Data.Overlay()
		if err != nil {
			return err
		}
		if end.Processed, err = j.crew.o.Packer.Pack(changes); err != nil {
			return err
		}
	}
	if !rec.ManageBoot {
		return j.advance(end)
	}
	if err := j.note(hookPowerOff); err != nil { // what the log says next must not be taken back
		return err
	}
	// The ramdisk gets its answer before its machine is switched off.
	if err := j.mark(fsm.Mark{Hook: hookPowerOff, Answer: end.Answer, Processed: end.Processed}); err != nil {
		return err
	}
	err := j.insist(ctx, func() error { return j.off(ctx, t) })
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, ErrNotAllowed):
		return err
	case strings.EqualFold(t.Node().Provision, "enroll"):
		j.log.Info("the node could not be switched off; it has no power management yet", "err", err)
	default:
		return j.advance(fsm.Advance{Event: fsm.EventError, Consume: true,
			Error: clip(fmt.Sprintf("Failed to power off node %s, check its power management configuration: %v", t.Node().UUID, err))})
	}
	return j.advance(fsm.Advance{Event: fsm.EventFinish, Consume: true})
}

// note leaves word of what this worker is about to do, in the log if there is no
// other place.
func (j *job) note(hook string) error {
	err := j.crew.o.Notes.Note(j.request.Sequence, hook)
	if err == nil {
		return nil
	}
	j.log.Warn("what a worker does next is noted in the log", "hook", hook, "why", err)
	return j.mark(fsm.Mark{Hook: hook})
}

// mark notes in the log what this worker is about to do.
func (j *job) mark(m fsm.Mark) error {
	m.Claim = j.claim.Hold()
	_, err := j.commit(m)
	return err
}

// hook runs a part of a hook in a goroutine of its own, so that one that never
// ends holds up a processor and nothing else. Its calls of Ironic fail from
// then on.
func (j *job) hook(ctx context.Context, h Hook, part func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, j.crew.o.HookLimit)
	defer cancel()
	done := make(chan error, 1) // nobody may be left to take it
	go func() {
		defer func() {
			if p := recover(); p != nil {
				j.log.Error("a hook panicked", "hook", h.Name(), "panic", p, "stack", string(debug.Stack()))
				done <- &panicError{p}
			}
		}()
		done <- part(limited)
	}()
	select {
	case err := <-done:
		return err
	case <-limited.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		j.log.Error("a hook does not end; it goes on in vain until this process ends", "hook", h.Name())
		return &endlessError{h.Name(), j.crew.o.HookLimit}
	}
}

// endlessError is said of a hook that did not end in time. Its goroutine goes on.
type endlessError struct {
	hook  string
	limit time.Duration
}

// Error implements error.
func (e *endlessError) Error() string {
	return fmt.Sprintf("hook %s did not end within %v", e.hook, e.limit)
}

// panicError is a panic of a hook.
type panicError struct{ value any }

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprint(e.value) }

// class names the kind of an unexpected error in the contract's texts, where
// the original has the name of a Python class.
func class(err error) string {
	var said *IronicError
	var panicked *panicError
	var endless *endlessError
	switch {
	case errors.As(err, &panicked):
		return "panic"
	case errors.As(err, &endless):
		return "TimeoutError"
	case errors.As(err, &said):
		return "IronicError"
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	}
}
