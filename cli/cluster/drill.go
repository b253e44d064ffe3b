package cluster

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// Drill is 'trivet drill'.
func Drill(t *term.Terminal, peer term.Peer) *cobra.Command {
	var order admin.DrillOrder
	var yes bool
	c := &cobra.Command{
		Use:   "failover",
		Short: "Take leadership away, and measure for how long API, PXE and floating IP are gone",
		Long: "Take leadership away from the peer that has it, and measure from all peers for how long the API, PXE and the floating IP are gone.\n" +
			"Leadership is handed on, which a planned stop does too and costs less than a second; with --kill the leader's process is ended as\n" +
			"a crash would end it, systemd starts it again, and machines that boot must not notice (7.5 s). Run that on another host than the leader.\n\n" +
			"It refuses while machines are introspected, unless --with-introspections is given: none of them should fail, and that is worth a drill\n" +
			"of its own. It refuses when none may be lost. The exit code is 0 if all was within its bound, 1 if not. Ctrl-C before the first second\n" +
			"is over changes nothing; after that it only ends the measurement.",
		Example: "  trivet drill failover\n  trivet drill failover --kill --yes\n  trivet drill failover --yes -o json",
	}
	c.Flags().BoolVar(&order.Kill, "kill", false, "end the leader's process instead of asking it to hand on")
	c.Flags().BoolVar(&order.WithIntrospections, "with-introspections", false, "also while machines are introspected")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return drill(ctx, t, peer, order, yes)
	}
	return term.Group("drill", "Practise failure, and measure what it costs", c)
}

func drill(ctx context.Context, t *term.Terminal, peer term.Peer, order admin.DrillOrder, yes bool) error {
	var s api.Status
	if err := peer.Call(ctx, "GET", "/v1/status", nil, &s); err != nil {
		return err
	}
	what := "hand leadership on"
	if order.Kill {
		what = "be killed"
	}
	switch {
	case yes:
	case !term.IsTerminal(t.In):
		return term.Fail(term.ExitUsage, "'trivet drill failover --yes'",
			"drill: it moves leadership, and standard input is not a terminal to confirm that")
	case !t.Ask(fmt.Sprintf("%s will %s. To go on, type yes: ", term.Dash(s.Leader), what), "yes"):
		return term.Fail(term.ExitUsage, "nothing was changed", "drill: that was not yes")
	}
	t.Say("all peers look on; in a second %s loses leadership", term.Dash(s.Leader))
	var r admin.DrillReport
	if err := peer.Within(admin.DrillLimit).Call(ctx, "POST", "/v1/drill", order, &r); err != nil {
		return err
	}
	err := t.Show(r, func() error {
		t.Say("%s led, %s leads now", r.OldLeader, term.Dash(r.NewLeader))
		type row struct {
			What, SeenFrom, LongestGone, Bound, Verdict string
			Note                                        string `col:"wide"`
		}
		return t.Show(r.Rows, term.Each(r.Rows, func(r admin.DrillRow) row {
			gone, verdict := fmt.Sprintf("%d ms", r.LongestMS), "ok"
			if r.Note != "" && r.LongestMS == 0 {
				gone = "-"
			}
			switch {
			case !r.OK:
				verdict = "TOO LONG"
			case r.Note != "":
				verdict = "not known"
			}
			return row{r.What, r.From, gone, fmt.Sprintf("%d ms", r.BoundMS), verdict, r.Note}
		}))
	})
	if err == nil && !r.OK {
		return term.Fail(term.ExitFailed,
			"the logs of both leaders say what they waited for: 'journalctl -u trivet'; then 'trivet doctor'",
			"the drill was not within its bounds")
	}
	return err
}
