package accept

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// Values of the search for a callback's node.
const (
	// findTries is how often a callback is looked up: another peer may make or
	// delete a record while this one is about to.
	findTries = 4
	// doorHookLimit is how long one hook may look at data whose node is not known.
	doorHookLimit = 5 * time.Second
)

// finder finds the node that a ramdisk's data belongs to, and makes a record where no
// operator has started its introspection.
type finder struct {
	o       *Options
	limited *slog.Logger
	lists   *ListReader
}

// find returns the node that a ramdisk's data belongs to, as it stands in v. a is the
// answer of the introspections that are under way. A machine that is none of these may have
// got its port since the start, may be known to Ironic, or may be discovered; then a record
// is made. errStale asks for another view.
func (f *finder) find(ctx context.Context, v fsm.View, c caller, a identify.Answer) (node string, err error) {
	conf := f.o.Live.Config()
	permitted, enrolls := conf.Processing.PermitActiveIntrospection, conf.Processing.NodeNotFoundHook == "enroll"
	if a.Verdict == identify.None && (v.Introspecting() || permitted || enrolls) {
		var err error
		search, over := f.lists.of(ctx, a.Machine)
		defer over()
		found := identifying(ctx, search, func(search identify.Search) (found identify.Found) {
			found, err = search.InIronic(ctx, a.Machine)
			return found
		})
		if err != nil {
			return "", ironicRefusal(err)
		}
		if a = found.Started(v); a.Verdict == identify.This {
			f.o.Logger.Info("callback found by a port that was created after the start", "node", a.Node)
		}
		if known := found.Node(); permitted && a.Verdict == identify.None && known.Verdict != identify.None {
			return f.adopt(ctx, v, known)
		}
		if enrolls && a.Verdict == identify.None {
			if a, err = f.discovered(ctx, v, c, found); err != nil {
				return "", err
			}
		}
	}
	switch {
	case a.Verdict == identify.This:
		return a.Node, nil
	case a.Verdict == identify.Several:
		return "", f.unfound(ctx, c, lookUpLine+a.Text)
	case a.Verdict == identify.Refused:
		return "", f.unfound(ctx, c, inspector.NotFoundLine(a.Text))
	case a.Verdict == identify.New: // a worker makes the node, before the data is processed
		start := introspection.Start{Node: a.Node, Event: introspection.EventEnroll, ManageBoot: true, Timeout: conf.Timeout,
			Attributes: a.Attributes, Source: senderOf(ctx)}
		if f.o.Log.View().Admits(start) != nil {
			start.Source = "" // the log cannot count it yet
		}
		return a.Node, f.record(ctx, v, start)
	case conf.Processing.NodeNotFoundHook == "example":
		f.limited.Info("callback from unknown node", "attributes", a.Machine.String())
		return "", f.unfound(ctx, c, "Node not found hook returned nothing")
	default:
		return "", f.unfound(ctx, c, lookUpLine+a.Machine.Unknown())
	}
}

// discovered answers with what a machine will be that no node is found for. Where it is refused
// because of a node that another peer makes of it since v, the callback is that node's: errStale.
func (f *finder) discovered(ctx context.Context, v fsm.View, c caller, found identify.Found) (a identify.Answer,
	err error) {
	var chosen []string // MACs of the interfaces that the hooks choose, the ports to be
	for _, h := range f.o.Live.Now().Hooks {
		if chooser, ok := h.(inspector.Chooser); ok {
			chosen = chooser.Choose(c.data)
			break
		}
	}
	a = identifying(ctx, f.lists.search, func(search identify.Search) (a identify.Answer) {
		a, err = search.Discovered(ctx, v, found, chosen)
		return a
	})
	if errors.Is(err, identify.ErrUnresolved) {
		f.limited.Warn("discover machine failed, its ramdisk has to retry", "err", errors.Unwrap(err))
	}
	if err != nil || a.Verdict != identify.Refused {
		return a, ironicRefusal(err)
	}
	now, err := inspector.ReadView(ctx, f.o.Log, inspector.Linearizable)
	if err != nil {
		return a, err
	}
	was, _ := v.Record(a.Node)
	if is, there := now.Record(a.Node); there && is.Begun != was.Begun {
		return a, errStale
	}
	return a, nil
}

// errStale is said of a view that others have overtaken.
var errStale = errors.New("the state has changed since it was looked at")

// unfound refuses a callback whose node is not found: what hooks object to comes
// first, as in the original. No request counts the processes that die of the
// data, so that hooks do not look at a suspect here.
func (f *finder) unfound(ctx context.Context, c caller, line string) error {
	lines := []string{line}
	if f.o.Suspects != nil && f.o.Suspects.Examine(c.machine.Document) {
		defer f.o.Suspects.Clear(c.machine.Document)
		run := inspector.HookRunner{Hooks: f.o.Live.Now().Hooks, Limit: doorHookLimit, Log: f.o.Logger}
		defer run.Stop()
		err := computing(ctx, c.bytes, func() error {
			failures, err := run.Objections(ctx, c.data, func(inspector.Hook) error { return ctx.Err() })
			lines = append(failures, line)
			return err
		})
		if err != nil {
			return err
		}
	}
	return inspector.Refuse(http.StatusBadRequest, "%s", inspector.Clip(inspector.FailuresHead+strings.Join(lines, "\n")))
}

// adopt makes a record for a node that carries a workload and calls without
// having been asked to, as its operator permits. Its power is never touched.
func (f *finder) adopt(ctx context.Context, v fsm.View, a identify.Answer) (node string, err error) {
	if a.Verdict == identify.Several {
		return "", inspector.Refuse(http.StatusBadRequest, "%s", a.Text)
	}
	whole, err := readNode(ctx, f.o.Ironic, a.Node)
	if err != nil {
		return "", err
	}
	if !whole.Deployed() {
		return "", inspector.Refuse(http.StatusBadRequest, "Node %s is not active, its provision state is %s", whole.UUID,
			whole.Provision)
	}
	return whole.UUID, f.record(ctx, v, introspection.Start{
		Node: whole.UUID, Event: introspection.EventAdopt, Timeout: f.o.Live.Config().Timeout, Attributes: a.Attributes,
	})
}

// record makes a record. One of an introspection that has ended gives way, as at
// a start; one that has not was made by another peer a moment ago.
func (f *finder) record(ctx context.Context, v fsm.View, start introspection.Start) error {
	if err := admits(f.o.Log, start.Event); err != nil {
		return err
	}
	if rec, there := v.Record(start.Node); there && !rec.State.Active() {
		_, err := inspector.Commit(ctx, f.o.Do, introspection.DeleteNode{Node: start.Node})
		switch {
		case errors.Is(err, fsm.Conflict), errors.Is(err, fsm.NotFound):
			return errStale
		case err != nil:
			return err
		}
	}
	if _, err := inspector.Commit(ctx, f.o.Do, start); !errors.Is(err, fsm.IllegalTransition) {
		return err
	}
	now, err := inspector.ReadView(ctx, f.o.Log, inspector.Linearizable)
	if err != nil {
		return err
	}
	if rec, there := now.Record(start.Node); !there || !rec.State.Active() {
		return errStale
	}
	return nil // the callback is that introspection's
}
