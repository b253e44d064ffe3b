package inspector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// hookRunner runs hooks for a worker, or for Service.
type hookRunner struct {
	hooks     []Hook
	limit     time.Duration // of each part of each hook
	log       *slog.Logger
	goroutine *hookGoroutine // nil: each part has one of its own
}

// hookGoroutine is a goroutine that runs the parts of hooks, one after the other. Its
// stack has grown by the second. The zero hookGoroutine is idle; it belongs to one worker.
type hookGoroutine struct{ parts chan func() }

// run runs a part. It must not be busy.
func (h *hookGoroutine) run(part func()) {
	if h.parts == nil {
		h.parts = make(chan func())
		go func(parts <-chan func()) {
			for part := range parts {
				part()
			}
		}(h.parts)
	}
	h.parts <- part
}

// stop ends the goroutine as soon as it is idle.
func (h *hookGoroutine) stop() {
	if h.parts != nil {
		close(h.parts)
		h.parts = nil
	}
}

// afters returns the hooks that do something with the node, in order.
func (r hookRunner) afters() (hooks []Hook) {
	for _, h := range r.hooks {
		if _, ok := h.(After); ok {
			hooks = append(hooks, h)
		}
	}
	return hooks
}

// objections runs the pre-processing of all hooks and collects what they object
// to, in the contract's words. next is called before each of them.
func (r hookRunner) objections(ctx context.Context, data *Document, next func(Hook) error) (failures []string, err error) {
	for _, h := range r.hooks {
		b, ok := h.(Before)
		if !ok {
			continue
		}
		if err := next(h); err != nil {
			return nil, err
		}
		err := r.run(ctx, h, func(ctx context.Context) error { return b.Before(ctx, data) })
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

// run runs a part of a hook in a goroutine that no caller waits for, so that one
// that never ends holds up a processor and nothing else. Its calls of Ironic fail
// from then on.
func (r hookRunner) run(ctx context.Context, h Hook, part func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	worker := r.goroutine
	if worker == nil {
		worker = &hookGoroutine{}
		defer worker.stop()
	}
	done := make(chan error, 1) // buffered, since the caller may be gone
	worker.run(func() {
		defer func() {
			if p := recover(); p != nil {
				r.log.Error("hook panicked", "hook", h.Name(), "panic", p, "stack", string(debug.Stack()))
				done <- &panicError{p}
			}
		}()
		done <- part(limited)
	})
	select {
	case err := <-done:
		return err
	case <-limited.Done():
		worker.stop() // it may be busy for ever
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.log.Error("hook exceeded its time limit and still runs; its result is discarded", "hook", h.Name())
		return &endlessError{h.Name(), r.limit}
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
	var named *Exception
	switch {
	case errors.As(err, &named):
		return named.Class
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

// stepRules is what the log calls the evaluation of the rules.
const stepRules = "rules"

// orLater follows the name of a hook in the log if the others are noted where
// only this host finds them.
const orLater = " or later"

// hookWork runs the hooks and rules for a job.
type hookWork struct {
	assignment
	out    *outcome
	node   *effects
	runner hookRunner
}

// before runs the pre-processing of all hooks and collects what they object to.
// A request that is met for the first time needs no marks: nothing is saved
// yet, and the third to meet it will have left one.
func (w *hookWork) before(ctx context.Context, data *Document) (failures []string, err error) {
	return w.runner.objections(ctx, data, func(h Hook) error {
		if w.request.Attempts > 1 {
			return w.out.mark(introspection.Mark{Hook: h.Name()})
		}
		return nil
	})
}

// firstHook is what is about to be done when `processing` is saved: all that is
// known if this host never comes back.
func (w *hookWork) firstHook() string {
	if hooks := w.runner.afters(); len(hooks) > 0 {
		return hooks[0].Name() + orLater
	}
	return ""
}

// apply runs what hooks do with the node, then the rules. What the data became is packed
// in between, if it is to be stored: what rules do is not in it.
func (w *hookWork) apply(ctx context.Context, t *Task) error {
	for _, h := range w.runner.afters() {
		if err := w.step(ctx, t, h.Name()); err != nil {
			return err
		}
		if err := w.runner.run(ctx, h, func(ctx context.Context) error { return h.(After).After(ctx, t) }); err != nil {
			return err
		}
	}
	if w.by.Config.StoreData {
		changes, err := t.Data.Overlay()
		if err != nil {
			return err
		}
		if w.out.processed, err = w.pool.o.Packer.Pack(changes); err != nil {
			return err
		}
	}
	// Read now: rules that were acknowledged before the callback came are there.
	v := w.pool.o.Log.View()
	if w.pool.o.Rules == nil || v.RuleCount() == 0 {
		return nil
	}
	if err := w.step(ctx, t, stepRules); err != nil {
		return err
	}
	return w.pool.o.Rules.Apply(ctx, v, t)
}

// step notes what is done next and makes sure that it may be done.
func (w *hookWork) step(ctx context.Context, t *Task, name string) error {
	if err := w.out.note(name); err != nil {
		return &unwritten{err}
	}
	return w.node.insist(ctx, func() error { return w.node.fit(ctx, t) })
}

// unwritten is a step that could not be noted in the log: no verdict on the
// data.
type unwritten struct{ err error }

// Error implements error.
func (u *unwritten) Error() string { return u.err.Error() }

// Unwrap returns the cause.
func (u *unwritten) Unwrap() error { return u.err }
