package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api/web"
	"github.com/trivet-ha/trivet/app/dev"
)

func (p *program) devCommand() *cobra.Command {
	o := dev.Options{Wall: p.wall, Random: p.random, Tell: p.sayOverBar, Binary: buildVersion()}
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
		Args: cobra.NoArgs,
	}
	c.Flags().IntVar(&o.Nodes, "nodes", 50, "machines")
	c.Flags().IntVar(&o.Silent, "silent", 1, "machines that never call back")
	c.Flags().DurationVar(&o.KillEvery, "kill-leader-every", 0, "kill the leader this often; 0s: never")
	c.Flags().DurationVar(&o.For, "for", 0, "end after this much time, when every introspection has ended; 0s: on SIGINT")
	c.Flags().StringVar(&o.Dir, "dir", "", "keep what the peers write here (default: a temporary directory)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if p.config != "" || len(p.values) > 0 {
			return usage("--config, --data-dir and --socket are not for dev: its peers have a configuration of their own")
		}
		if err := checkDev(o); err != nil {
			return err
		}
		return p.dev(c.Context(), o)
	}
	return c
}

func checkDev(o dev.Options) error {
	const least = time.Second
	switch {
	case o.Nodes < 1 || o.Nodes > dev.MaxNodes:
		return usage("--nodes %d: it is 1 to %d", o.Nodes, dev.MaxNodes)
	case o.Silent < 0 || o.Silent > o.Nodes:
		return usage("--silent %d: it is 0 to the number of nodes, %d", o.Silent, o.Nodes)
	case o.KillEvery != 0 && o.KillEvery < least:
		return usage("--kill-leader-every %v: it is at least %v, or 0s", o.KillEvery, least)
	case o.For != 0 && o.For < least:
		return usage("--for %v: it is at least %v, or 0s", o.For, least)
	}
	return nil
}

// dev runs the site until it is done or somebody ends it.
func (p *program) dev(ctx context.Context, o dev.Options) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer p.boundGarbage()()
	site, err := dev.New(ctx, o)
	if err != nil {
		return fail(ExitFailed, "", "%w", err)
	}
	defer func() {
		if closing := site.Close(); closing != nil {
			err = errors.Join(err, fmt.Errorf("end the site: %w", closing))
		}
	}()
	p.announceSite(site, o)
	hide := p.showProgress(func() (done, total int, detail string) {
		at := site.Progress()
		return at.Ended(), at.Nodes, at.Detail()
	})
	sum, err := site.Run(ctx)
	hide()
	stop() // from here on a signal ends the process
	if err != nil {
		err = fail(ExitFailed, "", "%w", err)
	}
	return errors.Join(p.printSummary(sum), err)
}

// sayOverBar is say while a bar may stand on the terminal.
func (p *program) sayOverBar(format string, args ...any) {
	if columns(p.errw) > 0 && !p.quiet {
		fmt.Fprint(p.errw, "\r\x1b[K")
	}
	p.say(format, args...)
}

func (p *program) announceSite(site *dev.Sandbox, o dev.Options) {
	peers := site.Peers()
	p.say("page %s%s", peers[0].URL, web.Path)
	p.say("%d machines, %d of them silent; peers and their logs are in %s", o.Nodes, o.Silent, site.Dir())
	for _, peer := range peers {
		p.say("%s  %s  trivet status --socket %s", peer.Name, peer.URL, peer.Socket)
	}
	p.say("Ironic %s", site.Ironic())
	if o.For == 0 {
		p.say("try: curl %s/v1/introspection   (Ctrl-C ends it)", peers[0].URL)
	}
}

// printSummary prints, as JSON, one line, which is the last.
func (p *program) printSummary(sum dev.Summary) error {
	if p.format == "json" {
		return json.NewEncoder(p.out).Encode(sum)
	}
	if p.format == "yaml" {
		return document(p.out, p.format, sum)
	}
	number := func(title string, n int64) column[dev.Summary] {
		return column[dev.Summary]{title: title, value: func(dev.Summary) string { return strconv.FormatInt(n, 10) }}
	}
	slowest := time.Duration(sum.SlowestFailoverMS) * time.Millisecond
	gap := time.Duration(sum.SlowestPXEGapMS) * time.Millisecond
	return table(p.out, p.format, []dev.Summary{sum}, func(s dev.Summary) string { return strconv.Itoa(s.Accepted) },
		number("ACCEPTED", int64(sum.Accepted)), number("FINISHED", int64(sum.Finished)), number("ERROR", int64(sum.Error)),
		number("STUCK", int64(sum.Stuck)), number("RESTARTED", int64(sum.Restarted)), number("FAILOVERS", int64(sum.Failovers)),
		column[dev.Summary]{title: "SLOWEST", value: func(dev.Summary) string { return slowest.String() }},
		number("PXE OPEN ON TWO", int64(sum.PXEOpenOnTwo)),
		column[dev.Summary]{title: "PXE GAP", value: func(dev.Summary) string { return gap.String() }},
	)
}
