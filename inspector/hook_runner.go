package inspector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// HookRunner runs the parts of hooks, one after the other, in a goroutine of its own, whose
// stack has grown by the second. It belongs to one worker, which calls Stop.
type HookRunner struct {
	Hooks []Hook
	Limit time.Duration // of each part of each hook
	Log   *slog.Logger

	parts chan func() // of the goroutine, which Stop closes; nil: there is none
}

// Stop ends the goroutine as soon as it is idle.
func (r *HookRunner) Stop() {
	if r.parts != nil {
		close(r.parts)
		r.parts = nil
	}
}

// Inherit takes over the goroutine of another runner.
func (r *HookRunner) Inherit(from *HookRunner) { r.parts, from.parts = from.parts, nil }

// Afters returns the hooks that do something with the node, in order.
func (r *HookRunner) Afters() (hooks []Hook) {
	for _, h := range r.Hooks {
		if _, ok := h.(After); ok {
			hooks = append(hooks, h)
		}
	}
	return hooks
}

// Objections runs the pre-processing of all hooks and collects what they object
// to, in the contract's words. next is called before each of them.
func (r *HookRunner) Objections(ctx context.Context, data *document.Document, next func(Hook) error) (failures []string,
	err error) {
	for _, h := range r.Hooks {
		b, ok := h.(Before)
		if !ok {
			continue
		}
		if err := next(h); err != nil {
			return nil, err
		}
		err := r.Run(ctx, h, func(ctx context.Context) error { return b.Before(ctx, data) })
		var problem *document.Problem
		var endless *endlessError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &problem):
			failures = append(failures, fmt.Sprintf("Preprocessing hook %s: %s", h.Name(), problem.Text))
		default:
			failures = append(failures,
				fmt.Sprintf("Unexpected exception %s during preprocessing in hook %s: %v", ErrorClass(err), h.Name(), err))
		}
		if errors.As(err, &endless) {
			break // the data is that hook's: another one would share it with a goroutine that runs on
		}
	}
	return failures, nil
}

// Run runs a part of a hook in a goroutine that no caller waits for, so that one
// that never ends holds up a processor and nothing else. Its calls of Ironic fail
// from then on. The limit is of the hook's own time: see StandStill.
func (r *HookRunner) Run(ctx context.Context, h Hook, part func(context.Context) error) error {
	limited, cancel := limitedTo(ctx, r.Limit)
	defer cancel()
	done := make(chan error, 1) // buffered, since the caller may be gone
	if r.parts == nil {
		r.parts = make(chan func())
		go func(parts <-chan func()) {
			for part := range parts {
				part()
			}
		}(r.parts)
	}
	r.parts <- func() { // the goroutine is not busy
		defer func() {
			if p := recover(); p != nil {
				r.Log.Error("hook panicked", "hook", h.Name(), "panic", p, "stack", string(debug.Stack()))
				done <- &panicError{p}
			}
		}()
		done <- part(limited)
	}
	select {
	case err := <-done:
		return err
	case <-limited.Done():
		r.Stop() // it may be busy for ever
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Log.Error("hook exceeded its time limit and still runs; its result is discarded", "hook", h.Name())
		return &endlessError{h.Name(), r.Limit}
	}
}

// stopwatch ends a hook's context after a time that can stand still. It belongs to the hook's
// goroutine.
type stopwatch struct {
	timer *time.Timer
	left  time.Duration // when it began to run last
	began time.Time
}

type stopwatchKey struct{}

// limitedTo is context.WithTimeout, for StandStill.
func limitedTo(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	w := &stopwatch{time.AfterFunc(limit, cancel), limit, time.Now()}
	return context.WithValue(ctx, stopwatchKey{}, w), func() {
		w.timer.Stop()
		cancel()
	}
}

// StandStill stops the limit of the hook that was handed ctx, until goOn is called: what Ironic's
// absence takes is not the hook's time. It does nothing where ctx is no hook's.
func StandStill(ctx context.Context) (goOn func()) {
	w, ok := ctx.Value(stopwatchKey{}).(*stopwatch)
	if !ok || !w.timer.Stop() {
		return func() {}
	}
	w.left -= time.Since(w.began)
	return func() {
		w.began = time.Now()
		w.timer.Reset(w.left)
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

// ErrorClass names the kind of an unexpected error in the contract's texts, where
// the original has the name of a Python class.
func ErrorClass(err error) string {
	var said *ironic.Error
	var panicked *panicError
	var endless *endlessError
	var named *document.Exception
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
