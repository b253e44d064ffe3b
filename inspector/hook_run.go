package inspector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
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
