package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

const (
	usualWait = time.Hour
	firstPoll = time.Second
	lastPoll  = 8 * time.Second // between looks while nothing happens
)

func introspectionStart(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var wait, manageBoot, checkErrors bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "start NODE…",
		Short: "Start introspections",
		Long: "Start the introspections of nodes; - reads nodes from standard input. What became of each is printed on standard output.\n" +
			"Where the answer to a start was lost, the node is looked at before it is repeated: a machine is not switched on twice.\n" +
			"With --wait the exit code is 0 only if all introspections finished well; with --check-errors as well, only those that did not are printed\n" +
			"if there are any. The introspections go on when the command is ended.",
		Example: "trivet introspection start node-1 node-2\nopenstack baremetal node list -f value -c UUID | trivet introspection start --wait -",
	}
	c.Flags().BoolVar(&wait, "wait", false, "stay until every introspection ended")
	c.Flags().BoolVar(&checkErrors, "check-errors", false, "with --wait: if introspections failed, print those alone")
	c.Flags().DurationVar(&timeout, "timeout", usualWait, "with --wait: stay no longer than this")
	c.Flags().BoolVar(&manageBoot, "manage-boot", true,
		"--manage-boot=false leaves boot device and power of the machines to you")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case !wait && c.Flags().Changed("timeout"):
			return term.Usage("--timeout: it goes with --wait")
		case !wait && checkErrors:
			return term.Usage("--check-errors: it goes with --wait")
		case timeout <= 0:
			return term.Usage("--timeout %v: it must be positive", timeout)
		case !wait:
			timeout = 0
		}
		start := func(ctx context.Context, web *client.Client, node string) error {
			return web.Start(ctx, node, client.StartOptions{LeaveBoot: !manageBoot})
		}
		return actOnNodes(c.Context(), t, f, args, start, waiting{timeout: timeout, failedOnly: checkErrors})
	}
	return c
}

// waiting says how a command waits for introspections to end.
type waiting struct {
	timeout    time.Duration // 0: not at all
	failedOnly bool          // where some failed, print those alone
}

// actOnNodes does one thing to many nodes and prints what became of each.
func actOnNodes(ctx context.Context, t *term.Terminal, f *servers.Flags, args []string,
	act func(context.Context, *client.Client, string) error, w waiting) error {
	refs, err := nodes(t, args)
	if err != nil {
		return err
	}
	web, err := f.Client()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, as usual
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("it took longer than --timeout %v", w.timeout))
		defer cancel()
	}
	began := time.Now()
	b := &board{wait: w.timeout > 0, runs: make([]nodeRun, len(refs))}
	for i, ref := range refs {
		b.runs[i].Node = ref
	}
	hide := t.ShowProgress(b.summary)
	forEach(ctx, web, len(refs), func(ctx context.Context, i int) error { return b.ask(ctx, web, i, act) })
	if b.wait {
		err = b.followPending(ctx, web)
		b.leave(ctx, err)
	}
	hide()
	switch _, _, detail := b.summary(); {
	case b.wait:
		t.Say("%s, in %v", detail, time.Since(began).Round(time.Second))
	case len(b.pending()) > 0:
		t.Say("%s; 'trivet introspection list' shows how it goes", detail)
	}
	verdict := b.verdict()
	runs := slices.DeleteFunc(slices.Clone(b.runs), func(r nodeRun) bool {
		if r.failure == nil {
			return w.failedOnly && verdict != nil
		}
		return t.Format == "name" // it names those of which all is well
	})
	type row struct {
		Node, Result, Took, Error string
		State, UUID               string `col:"wide"`
	}
	return errors.Join(t.Show(runs, term.Each(runs, func(r nodeRun) row {
		return row{r.Node, r.Result, r.took(), t.Clip(r.Error), r.State, r.UUID}
	})), verdict)
}

// ask acts on the i-th node, notes what came of it, and returns why it failed.
func (b *board) ask(ctx context.Context, web *client.Client, i int,
	act func(context.Context, *client.Client, string) error) error {
	node := b.runs[i].Node // never changes
	if ctx.Err() != nil {
		err := because(ctx, "nothing was changed for the nodes that were not asked for: repeat it for them",
			"not asked for: %w")
		b.change(i, func(r *nodeRun) { r.fail(resultNotAsked, err) })
		return err
	}
	if err := act(ctx, web, node); err != nil {
		b.change(i, func(r *nodeRun) {
			r.refuse(err)
			if r.Result == resultUnknown && ctx.Err() != nil {
				r.fail(resultUnknown, because(ctx, "look before you repeat it: 'trivet introspection list'",
					"the answer was not waited for: %w"))
			}
		})
		return err
	}
	b.change(i, func(r *nodeRun) { r.Result = resultAccepted })
	if !b.wait {
		return nil
	}
	if s, err := web.Status(ctx, node); err == nil { // else follow asks again
		b.change(i, func(r *nodeRun) { r.learn(s) })
	}
	return nil
}

// because tells why ctx ended, with the exit code of that, and its hint if it
// has one.
func because(ctx context.Context, hint, format string) error {
	cause := context.Cause(ctx)
	code := term.ExitOutcomeUnknown
	if f, ok := errors.AsType[*term.Failure](cause); ok {
		code, hint = f.Code, f.Hint
	}
	return term.Fail(code, hint, format, cause)
}

// followPending looks at the introspections until all ended. An API that is silent for
// a while does not end it, ctx does; that is no error. What is one: the API
// does not let us look.
func (b *board) followPending(ctx context.Context, web *client.Client) error {
	last := ""
	for pause := firstPoll; ; pause = min(pause*3/2, lastPoll) {
		pending := b.pending()
		if len(pending) == 0 || !web.Wait(ctx, pause) {
			return nil
		}
		err := b.readPending(ctx, web, pending)
		b.mu.Lock()
		if b.trouble = ""; err != nil {
			b.trouble = term.Printable(err.Error())
		}
		b.mu.Unlock()
		if term.ExitOf(err) == term.ExitNotAuthorised {
			return err
		}
		if _, _, now := b.summary(); now != last {
			pause, last = firstPoll, now
		}
	}
}

// readPending reads where the pending nodes stand: many from the listing, until it has shown
// all of them, and those that it does not show, or few, one by one.
func (b *board) readPending(ctx context.Context, web *client.Client, pending []int) error {
	if len(pending) > callsAtOnce {
		wanted, shown := make(map[string]int), make(map[int]bool)
		b.mu.Lock()
		for _, i := range pending {
			if id := b.runs[i].UUID; id != "" {
				wanted[id] = i
			}
		}
		b.mu.Unlock()
		for s, err := range web.List(ctx, client.ListOptions{}) {
			if err != nil {
				return err
			}
			if i, ok := wanted[s.UUID]; ok {
				b.change(i, func(r *nodeRun) { r.learn(s) })
				shown[i] = true
			}
			if len(shown) == len(wanted) {
				break
			}
		}
		pending = slices.DeleteFunc(pending, func(i int) bool { return shown[i] })
	}
	errs := make([]error, len(pending))
	forEach(ctx, web, len(pending), func(ctx context.Context, i int) error {
		s, err := web.Status(ctx, b.runs[pending[i]].Node)
		switch {
		case err == nil:
			b.change(pending[i], func(r *nodeRun) { r.learn(s) })
		case client.HasStatus(err, http.StatusNotFound):
			b.change(pending[i], func(r *nodeRun) { r.fail(resultFailed, err) })
		default:
			errs[i] = err
		}
		return err
	})
	return cmp.Or(errs...) // the first
}

// leave notes why the command no longer waits for the nodes that are not done: the
// end of ctx, or err.
func (b *board) leave(ctx context.Context, err error) {
	if err == nil {
		err = context.Cause(ctx)
	}
	const hint = "see how they end: 'trivet introspection list --state starting,waiting,processing'"
	for _, i := range b.pending() {
		b.change(i, func(r *nodeRun) {
			code := term.ExitOutcomeUnknown
			if _, refused := errors.AsType[*client.Error](err); refused {
				code = term.ExitOf(err)
			}
			r.fail(resultUnfinished, term.Fail(code, hint, "%w; the introspection goes on without this command", err))
		})
	}
}
