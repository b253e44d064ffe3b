package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	usualEventLines = 20
	maxEventLines   = 1000
	// watchPause is how long the watch waits while no peer answers.
	watchPause = time.Second
	// membersLimit bounds the question for the other peers, without which the watch
	// works as well.
	membersLimit = 2 * time.Second
)

// watchFlags choose what is watched.
type watchFlags struct {
	web   *servers.Flags
	node  string
	kinds []string
	lines int
	once  bool
	log   logWanted
}

// Watch is 'trivet watch'.
func Watch(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	flags := pflag.NewFlagSet("watch", pflag.ContinueOnError)
	f := &watchFlags{web: servers.New(t, set.APIServer, flags)}
	c := &cobra.Command{
		Use:   "watch",
		Short: "Follow what happens to the cluster and to its nodes",
		Long: "Follow what happens to the cluster and to its nodes: a line for each event, after the newest ones. When the peer that is asked is\n" +
			"lost, the watch goes on at another and misses nothing. Other peers are those of --server, or of the peer on this host. With -o json\n" +
			"each line is an event as GET /v1/events has it.\n\n" +
			"With --log, follow the logs of all peers instead: what their processes logged last, without secrets, by time. The peer on this host, or of --peer, asks the others.\n" +
			"--request shows the lines that belong to one request, which its answer names in X-Request-Id.",
		Example: "trivet watch\ntrivet watch --kind leadership,pxe,floating-ip\ntrivet watch --node node-1 -o json\n" +
			"trivet watch --log --level warn\ntrivet watch --log --once -n 100 --request req-3f1c6f52-6ad1-4f0c-a86c-1f3f3c1f9d55",
	}
	c.Flags().AddFlagSet(flags)
	c.Flags().StringVar(&f.node, "node", "", "only events of this node, by UUID or name")
	c.Flags().StringSliceVar(&f.kinds, "kind", nil, "only events of these kinds, such as leadership,pxe,introspection")
	c.Flags().IntVarP(&f.lines, "lines", "n", usualEventLines,
		"how many of the newest events, or lines of the log, come first")
	c.Flags().BoolVar(&f.once, "once", false, "print the newest and end")
	c.Flags().BoolVar(&f.log.all, "log", false, "the logs of all peers, instead of events")
	c.Flags().StringVar(&f.log.request, "request", "",
		"with --log: only lines of the request with this ID, or of this OpenStack operation")
	c.Flags().StringVar(&f.log.level, "level", "",
		"with --log: only lines of this level and above: debug, info, warn or error")
	term.Complete(c, "level", "debug", "info", "warn", "error")
	term.Complete(c, "kind", eventring.TopicNames()...)
	c.RunE = func(c *cobra.Command, _ []string) error { return watch(t, peer, set, c, f) }
	return c
}

func watch(t *term.Terminal, peer term.Peer, set *options.Set, c *cobra.Command, f *watchFlags) error {
	if !slices.Contains([]string{"table", "wide", "json"}, t.Format) {
		return term.Usage("-o %s: events are lines for a person (table, wide) or of JSON (json)", t.Format)
	}
	if f.lines < 0 || f.lines > maxEventLines {
		return term.Usage("--lines: 0 to %d, not %d", maxEventLines, f.lines)
	}
	ctx := c.Context()
	if f.log.all {
		if f.node != "" || len(f.kinds) > 0 {
			return term.Usage("--log: --node and --kind choose events; --request and --level choose lines of the log")
		}
		return watchLog(ctx, t, peer, f)
	}
	if f.log.request != "" || f.log.level != "" {
		return term.Usage("--request and --level choose lines of the log: add --log")
	}
	web, err := askedServers(ctx, set, f.web, false)
	if err != nil {
		return err
	}
	q := client.EventQuery{Kinds: f.kinds}
	if f.node != "" {
		if q.Node, err = servers.NodeID(ctx, web, f.node); err != nil {
			return err
		}
	}
	newest := q
	newest.Limit = max(f.lines, 1)
	page, err := web.Events(ctx, newest)
	if err != nil {
		return err
	}
	if err := printEvents(t, page.Events[max(0, len(page.Events)-f.lines):]); err != nil || f.once {
		return err
	}
	q.After = page.Last
	return followEvents(ctx, t, web, q)
}

// askedServers asks the peers of --server, or that on this host and the others, which it knows; with once
// each is asked a question once.
func askedServers(ctx context.Context, set *options.Set, flags *servers.Flags, once bool) (*client.Client, error) {
	if len(flags.Servers) == 0 {
		here, err := set.APIServer(flags.Login())
		if err != nil {
			return nil, err
		}
		flags.Servers = []string{here}
		if !strings.HasPrefix(here, "unix:") { // else the others would not know who asks
			flags.Servers = append(flags.Servers, otherServers(ctx, set)...)
		}
	}
	o, err := flags.Options()
	if err != nil {
		return nil, err
	}
	o.Once = once
	web, err := client.New(o)
	return web, servers.Error(err)
}

// otherServers are the URLs of all peers' APIs, as the peer on this host knows them;
// none where no peer runs here.
func otherServers(ctx context.Context, set *options.Set) (servers []string) {
	ctx, cancel := context.WithTimeout(ctx, membersLimit)
	defer cancel()
	local, err := set.Peruse()
	if err != nil || set.Port != "" {
		return nil
	}
	var members []admin.Member
	if err := term.OnSocket(local.Socket).Call(ctx, "GET", "/v1/members?stale=1", nil, &members); err != nil {
		return nil
	}
	for _, m := range members {
		if m.API != "" {
			servers = append(servers, local.API.Scheme()+"://"+m.API)
		}
	}
	return servers
}

// followEvents prints events from a position on until ctx ends. While no peer answers it
// asks again.
func followEvents(ctx context.Context, t *term.Terminal, web *client.Client, q client.EventQuery) error {
	q.Wait = client.MaxEventsWait
	away := false
	for ctx.Err() == nil {
		page, err := web.Events(ctx, q)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !mayPass(err):
			return err
		case err != nil:
			if !away {
				t.Warn("no peer answers; asking again: %s", term.Printable(err.Error()))
			}
			away = true
			pace.Wait(ctx, watchPause)
			continue
		case away && page.Reset == nil:
			t.Say("a peer answers again; no event was missed")
		}
		away = false
		if page.Reset != nil {
			t.Warn("events before %s are gone: %s", term.Printable(page.Reset.First), term.Printable(page.Reset.Reason))
		}
		if err := printEvents(t, page.Events); err != nil {
			return err
		}
		q.After = page.Last
	}
	return nil
}

// mayPass reports whether an error may be over soon.
func mayPass(err error) bool {
	_, silent := errors.AsType[*client.NoAnswerError](err)
	return silent || client.HasStatus(err, http.StatusServiceUnavailable) ||
		client.HasStatus(err, http.StatusBadGateway)
}

// printEvents prints a line for each event. What others wrote steers no terminal.
func printEvents(t *term.Terminal, all []client.Event) error {
	s := t.Style()
	for _, e := range all {
		text := markedAs(s, eventTone(e), term.Printable(e.Text))
		var err error
		switch t.Format {
		case "json":
			var line []byte
			if line, err = json.Marshal(e); err == nil {
				_, err = fmt.Fprintf(t.Out, "%s\n", term.Escaped(line))
			}
		case "wide":
			_, err = fmt.Fprintf(t.Out, "%s  %-14s  %-12s  %-24s  %s\n", servers.EventTime(e), term.Printable(e.Kind),
				term.Dash(term.Printable(e.Peer)), term.Printable(e.ID), text)
		default:
			_, err = fmt.Fprintf(t.Out, "%s  %-13s  %s\n", servers.EventTime(e), term.Printable(e.Kind), text)
		}
		if err != nil {
			return fmt.Errorf("print events: %w", err)
		}
	}
	return nil
}

// eventTone says where an operator should look.
func eventTone(e client.Event) tone {
	switch e.Action {
	case "error", "lost", "stuck", "lapsed", "drifted", "contact-lost", "closed-alone":
		return bad
	case "raised", "expired", "removed", "left-out":
		return doubtful
	}
	return plain
}
