package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// tenure is one leadership with its running duties.
type tenure struct {
	ctx       context.Context // of all duties; each has one of its own below it
	authority Tenure
	running   []running
	failed    chan error // the first duty that returned early; capacity 1
}

// running is one started duty.
type running struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when Run has returned
}

// start runs a duty in a context of its own, so that duties can be stopped one
// after the other.
func (t *tenure) start(d Duty) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	run := running{name: d.Name(), cancel: cancel, done: make(chan struct{})}
	t.running = append(t.running, run)
	go func() {
		defer close(run.done)
		err := d.Run(ctx, t.authority)
		if ctx.Err() != nil {
			return
		}
		select {
		case t.failed <- fmt.Errorf("duty %s ended early: %w", d.Name(), cmp.Or(err, errors.New("it gave no error"))):
		default: // one reason is enough
		}
	}()
}

// stop ends the duties in reverse order and returns the name of the first that
// is still running limit after its context ended, "" if none is. why is the cause
// of the contexts' end; nil: leadership moved.
func (t *tenure) stop(limit time.Duration, why error) string {
	for i, run := range slices.Backward(t.running) {
		run.cancel(why)
		timer := time.NewTimer(limit)
		select {
		case <-run.done:
			timer.Stop()
		case <-timer.C:
			for _, rest := range t.running[:i] {
				rest.cancel(why) // the process is about to exit; nothing waits any more
			}
			return run.name
		}
	}
	return ""
}
