package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/pace"
)

// How top asks: nothing more often than once a second.
const (
	topEvery    = time.Second
	statusLimit = 3 * time.Second // a peer that was stopped is silent; the next one is asked then
	laneEvents  = 300             // of the timeline, to begin with
	firstEvents = 60
)

// Top is 'trivet top'.
func Top(t *term.Terminal, set *options.Set) *cobra.Command {
	flags := pflag.NewFlagSet("top", pflag.ContinueOnError)
	web := servers.New(t, set.APIServer, flags)
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live how the cluster stands: peers, timeline, machines, events",
		Long: "Show live, in the terminal, how the cluster stands: who leads and where machines boot, the peers, warnings, the timeline of leadership and PXE service,\n" +
			"machines by state, and the newest events. It asks as 'trivet watch' does: when the peer that is asked is lost it goes on at another of --server, or says that none\n" +
			"answers and how old is what it shows. It changes nothing.\n\n" +
			"Keys: q quits; / shows only events that hold a text; arrows, page up, page down, home and end move through the events; ? lists the keys.\n" +
			"Without a terminal use 'trivet status' and 'trivet watch'.",
		Example: "trivet top\ntrivet top --server http://h1:5050,http://h2:5050,http://h3:5050",
	}
	c.Flags().AddFlagSet(flags)
	c.RunE = func(c *cobra.Command, _ []string) error { return runTop(c.Context(), t, set, web) }
	return c
}

func runTop(ctx context.Context, t *term.Terminal, set *options.Set, flags *servers.Flags) error {
	if !term.IsTerminal(t.In) || !term.IsTerminal(t.Out) {
		return term.Fail(term.ExitUsage, "'trivet status' prints how the cluster stands, 'trivet watch' follows its events",
			"top draws on a terminal, and standard input or output is none")
	}
	web, err := askedServers(ctx, set, flags, true) // it asks again by itself
	if err != nil {
		return err
	}
	shown, err := t.TakeScreen()
	if err != nil {
		return err
	}
	// A process that is to end gives the terminal back first.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return live(ctx, t, web, shown)
}

// live draws what the peers say until a key or ctx ends it, or a peer refuses to be asked.
func live(ctx context.Context, t *term.Terminal, web *client.Client, shown canvas) (err error) {
	defer func() { err = errors.Join(err, shown.Close()) }() // after a panic, too
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{web: web, wall: t.Wall, updates: make(chan func(*board)), failures: make(chan error, 2)}
	var asking sync.WaitGroup
	asking.Go(func() { f.guarded(ctx, f.followStatus) })
	asking.Go(func() { f.guarded(ctx, f.followEvents) })
	defer asking.Wait()
	defer cancel()
	tick := time.NewTicker(topEvery) // ages go on
	defer tick.Stop()
	style := t.Style()
	for b := new(board); ; {
		cols, rows := shown.Size()
		if err := shown.Draw(markedRows(b.view(cols, rows, t.Wall()), cols, style)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case change := <-f.updates:
			change(b)
		case err := <-f.failures:
			if broken, ok := errors.AsType[*panicked](err); ok {
				panic(broken.text)
			}
			return err
		case key := <-shown.Keys():
			if b.press(key) {
				return nil
			}
		}
	}
}

// feed asks the peers what the board shows.
type feed struct {
	web      *client.Client
	wall     func() time.Time
	updates  chan func(*board) // what has become known; it is never closed
	failures chan error        // one of each goroutine at most, which ends the command
}

// panicked is what a goroutine ended with.
type panicked struct{ text string }

func (p *panicked) Error() string { return p.text }

// guarded runs what asks. Its panic becomes one of the goroutine that has the terminal and gives it back.
func (f *feed) guarded(ctx context.Context, follow func(context.Context) error) {
	defer func() {
		if r := recover(); r != nil {
			f.failures <- &panicked{fmt.Sprintf("%v\n%s", r, debug.Stack())}
		}
	}()
	if err := follow(ctx); err != nil && ctx.Err() == nil {
		f.failures <- err
	}
}

// tell has the board changed, unless the command ends.
func (f *feed) tell(ctx context.Context, change func(*board)) {
	select {
	case f.updates <- change:
	case <-ctx.Done():
	}
}

// followStatus asks for the status again and again.
func (f *feed) followStatus(ctx context.Context) error {
	for known := false; ctx.Err() == nil; pace.Wait(ctx, topEvery) {
		var s api.Status
		asked, cancel := context.WithTimeout(ctx, statusLimit)
		date, err := client.ClusterStatus(asked, f.web, &s)
		cancel()
		at := f.wall()
		switch {
		case err == nil:
			known = true
			f.tell(ctx, func(b *board) { b.learn(s, date, at) })
		case client.HasStatus(err, http.StatusNotFound) && !known:
			return term.Fail(term.ExitFailed, "'trivet status' and 'trivet watch' ask it, too",
				"the peer is of a release without top: %w", err)
		case !mayPass(err) && !client.HasStatus(err, http.StatusNotFound): // of an older peer, during an upgrade
			return err
		default:
			f.tell(ctx, func(b *board) { b.miss(err.Error(), at) })
		}
	}
	return nil
}

// followEvents reads the newest events, and then each that comes. While no peer answers it asks again.
func (f *feed) followEvents(ctx context.Context) error {
	q := client.EventQuery{Wait: client.MaxEventsWait}
	for ; ctx.Err() == nil; pace.Wait(ctx, topEvery) {
		page, err := f.nextEvents(ctx, q)
		if err != nil {
			if !mayPass(err) {
				return err
			}
			continue // the status says so
		}
		f.tell(ctx, func(b *board) {
			if page.Reset != nil {
				b.forget()
			}
			b.happen(page.Events)
		})
		q.After = page.Last
	}
	return nil
}

// nextEvents are those after a position; without one the newest, and more of those that the timeline draws.
func (f *feed) nextEvents(ctx context.Context, q client.EventQuery) (client.EventPage, error) {
	if q.After != "" {
		return f.web.Events(ctx, q)
	}
	lanes, err := f.web.Events(ctx, client.EventQuery{Limit: laneEvents, Kinds: []string{
		eventring.TopicLeadership.String(), eventring.TopicPXE.String(), eventring.TopicMember.String()}})
	if err != nil {
		return lanes, err
	}
	newest, err := f.web.Events(ctx, client.EventQuery{Limit: firstEvents})
	newest.Events = append(lanes.Events, newest.Events...)
	return newest, err
}
