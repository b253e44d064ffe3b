package work

import (
	"context"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

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
	runner inspector.HookRunner
}

// before runs the pre-processing of all hooks and collects what they object to.
// A request that is met for the first time needs no marks: nothing is saved
// yet, and the third to meet it will have left one.
func (w *hookWork) before(ctx context.Context, data *document.Document) (failures []string, err error) {
	return w.runner.Objections(ctx, data, func(h inspector.Hook) error {
		if w.request.Attempts > 1 {
			return w.out.mark(introspection.Mark{Hook: h.Name()})
		}
		return nil
	})
}

// firstHook is what is about to be done when `processing` is saved: all that is
// known if this host never comes back.
func (w *hookWork) firstHook() string {
	if hooks := w.runner.Afters(); len(hooks) > 0 {
		return hooks[0].Name() + orLater
	}
	return ""
}

// apply runs what hooks do with the node, then the rules. What the data became is packed
// in between, if it is to be stored: what rules do is not in it.
func (w *hookWork) apply(ctx context.Context, t *inspector.Task) error {
	ctx = ironic.WithReread(ctx, func(ctx context.Context) error { return w.node.fit(ctx, t) })
	for _, h := range w.runner.Afters() {
		if err := w.beginStep(ctx, t, h.Name()); err != nil {
			return err
		}
		if err := w.runner.Run(
			ctx, h, func(ctx context.Context) error { return h.(inspector.After).After(ctx, t) }); err != nil {
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
	if err := w.beginStep(ctx, t, stepRules); err != nil {
		return err
	}
	return w.pool.o.Rules.Apply(ctx, v, t)
}

// beginStep notes what is done next and makes sure that it may be done.
func (w *hookWork) beginStep(ctx context.Context, t *inspector.Task, name string) error {
	if err := w.out.noteHook(name); err != nil {
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
