package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api/web"
	"github.com/trivet-ha/trivet/app/dev"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

// Dev is 'trivet dev'.
func Dev(t *term.Terminal, set *options.Set) *cobra.Command {
	o := dev.Options{Wall: t.Wall, Random: t.Random, Tell: func(format string, args ...any) { sayOverBar(t, format, args...) }, Binary: t.Version}
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole site in this process, to try things out",
		Long: "Run three peers in this process, with a real log over mutual TLS on loopback and on disk, in front of a simulated Ironic and\n" +
			"simulated machines, and introspect every machine once. It needs no root and touches nothing else on this host.\n\n" +
			"The packet filter of each host is a model in memory, with a lease that ends by itself as the kernel's does; peers drive it as they\n" +
			"drive a kernel, and a machine boots when one of the three lets it through. It is told when the PXE service of a host opens and\n" +
			"closes; 'trivet status' of a peer shows it, too.\n\n" +
			"Without --for the site stays up until SIGINT, to be spoken to: its addresses are printed. With --for, machines arrive over that\n" +
			"time; the command ends when every introspection has. Introspections time out after 15 s here.\n\n" +
			"--kill-leader-every kills whichever peer leads, without warning, and starts it again 3 s later. A callback that such a peer was\n" +
			"processing ends in error, since it must not be processed twice; this command starts such a node again, as an operator would.\n\n" +
			"The last line on standard output sums up: 'accepted' counts nodes whose introspection was started, 'stuck' those that had neither\n" +
			"finished nor ended in error long after their time, 'slowest_failover_ms' the longest from a death to the first write through a\n" +
			"survivor, 'restarted' starts of nodes that a dead peer had taken along, 'pxe_open_on_two' how often two hosts' PXE services were open at\n" +
			"once, 'slowest_pxe_gap_ms' the longest from the closing of one to the opening of the next. The exit code is 1 if a node is stuck, or\n" +
			"ended as it should not (silent ones end in error, the others finish), or if two PXE services were open at once.",
		Example: "trivet dev --nodes 20\ntrivet dev --nodes 50 --kill-leader-every 10s --for 1m",
	}
	c.Flags().IntVar(&o.Nodes, "nodes", 50, "machines")
	c.Flags().IntVar(&o.Silent, "silent", 1, "machines that never call back")
	c.Flags().DurationVar(&o.KillEvery, "kill-leader-every", 0, "kill the leader this often; 0s: never")
	c.Flags().DurationVar(&o.For, "for", 0, "end after this much time, when every introspection has ended; 0s: on SIGINT")
	c.Flags().StringVar(&o.Dir, "dir", "", "keep what the peers write here (default: a temporary directory)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if set.File != "" || len(set.Values) > 0 {
			return term.Usage("--config, --data-dir and --socket are not for dev: its peers have a configuration of their own")
		}
		if err := checkDev(o); err != nil {
			return err
		}
		return runSite(c.Context(), t, o)
	}
	return c
}

func checkDev(o dev.Options) error {
	const least = time.Second
	switch {
	case o.Nodes < 1 || o.Nodes > dev.MaxNodes:
		return term.Usage("--nodes %d: it is 1 to %d", o.Nodes, dev.MaxNodes)
	case o.Silent < 0 || o.Silent > o.Nodes:
		return term.Usage("--silent %d: it is 0 to the number of nodes, %d", o.Silent, o.Nodes)
	case o.KillEvery != 0 && o.KillEvery < least:
		return term.Usage("--kill-leader-every %v: it is at least %v, or 0s", o.KillEvery, least)
	case o.For != 0 && o.For < least:
		return term.Usage("--for %v: it is at least %v, or 0s", o.For, least)
	}
	return nil
}

// runSite runs the site until it is done or a signal ends it.
func runSite(ctx context.Context, t *term.Terminal, o dev.Options) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer boundGarbage(t)()
	site, err := dev.New(ctx, o)
	if err != nil {
		return term.Fail(term.ExitFailed, "", "%w", err)
	}
	defer func() {
		if closing := site.Close(); closing != nil {
			err = errors.Join(err, fmt.Errorf("end the site: %w", closing))
		}
	}()
	announceSite(t, site, o)
	hide := t.ShowProgress(func() (done, total int, detail string) {
		at := site.Progress()
		return at.Ended(), at.Nodes, at.Detail()
	})
	sum, err := site.Run(ctx)
	hide()
	stop() // from here on a signal ends the process
	if err != nil {
		err = term.Fail(term.ExitFailed, "", "%w", err)
	}
	return errors.Join(printSummary(t, sum), err)
}

// sayOverBar is say while a bar may stand on the terminal.
func sayOverBar(t *term.Terminal, format string, args ...any) {
	if term.Columns(t.Err) > 0 && !t.Quiet {
		fmt.Fprint(t.Err, "\r\x1b[K") // the screen knows it
	}
	t.Say(format, args...)
}

func announceSite(t *term.Terminal, site *dev.Sandbox, o dev.Options) {
	peers := site.Peers()
	t.Say("page %s%s", peers[0].URL, web.Path)
	t.Say("%d machines, %d of them silent; peers and their logs are in %s", o.Nodes, o.Silent, site.Dir())
	for _, peer := range peers {
		t.Say("%s  %s  trivet status --socket %s", peer.Name, peer.URL, peer.Socket)
	}
	t.Say("Ironic %s", site.Ironic())
	if o.For == 0 {
		t.Say("try: curl %s/v1/introspection   (Ctrl-C ends it)", peers[0].URL)
	}
}

// printSummary prints, as JSON, one line, which is the last.
func printSummary(t *term.Terminal, sum dev.Summary) error {
	if t.Format == "json" {
		return json.NewEncoder(t.Out).Encode(sum)
	}
	type row struct {
		Accepted, Finished, Error, Stuck, Restarted, Failovers int
		Slowest                                                time.Duration
		PXEOpenOnTwo                                           int
		PXEGap                                                 time.Duration
	}
	return t.Show(sum, []row{{
		sum.Accepted, sum.Finished, sum.Error, sum.Stuck, sum.Restarted, sum.Failovers,
		time.Duration(sum.SlowestFailoverMS) * time.Millisecond, sum.PXEOpenOnTwo, time.Duration(sum.SlowestPXEGapMS) * time.Millisecond,
	}})
}
