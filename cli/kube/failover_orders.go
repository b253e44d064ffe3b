package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// fenceLimit bounds a call to fence devices; the peer gives up a little sooner.
const fenceLimit = 2*time.Minute + 5*time.Second

// operator is who runs the command, for others to read; what the connection
// proves is added by the peer.
func operator(t *term.Terminal) string {
	return t.Variable("SUDO_USER", t.Variable("USER", ""))
}

func failoverPause(t *term.Terminal, peer term.Peer) *cobra.Command {
	var in admin.PauseOrder
	var length time.Duration
	c := term.Verb[[]admin.FailoverPause]{
		Use:   "pause",
		Short: "Begin nothing more, in one cluster or in all, until it is resumed or for a while",
		Long: "Begin no remediation, in one cluster or in all, until 'trivet failover resume' or for as long as --for says. It is in the log: every\n" +
			"leader keeps to it. Of what is under way a machine that is not off yet is not switched off, unless its device has taken the command; one that\n" +
			"is off is finished. A pause that would end before the one in force is refused: resume that one first.",
		Example: "  trivet failover pause --for 2h --reason 'new switches'\n  trivet failover pause --cluster prod",
		Method:  "POST", Path: "/v1/failover/pause", Dry: t, Of: "pauses",
		Input: func([]string) any {
			if length > 0 {
				in.For = length.String()
			}
			in.By = operator(t)
			return in
		},
		Show: func(now []admin.FailoverPause, _ []string) error {
			of, until := "all clusters", "until 'trivet failover resume'"
			if in.Cluster != "" {
				of, until = "cluster "+in.Cluster, "until 'trivet failover resume --cluster "+in.Cluster+"'"
			}
			if length > 0 {
				until = "for " + length.String()
			}
			t.Say("nothing is begun in %s %s; a machine that is not off yet is not switched off, one that is off is finished",
				of, until)
			return printPauses(t, now)
		},
	}.Command(peer)
	c.PreRunE = func(*cobra.Command, []string) error {
		if length < 0 {
			return term.Usage("--for %v: it is 0 or more", length)
		}
		return nil
	}
	c.Flags().StringVar(&in.Cluster, "cluster", "", "this cluster alone")
	c.Flags().DurationVar(&length, "for", 0, "how long; 0: until it is resumed")
	c.Flags().StringVar(&in.Reason, "reason", "", "why, for the others")
	return c
}

func failoverResume(t *term.Terminal, peer term.Peer) *cobra.Command {
	var in admin.PauseOrder
	c := term.Verb[[]admin.FailoverPause]{
		Use:     "resume",
		Short:   "End a pause",
		Long:    "End a pause: that of one cluster, or that of all. They are apart: a cluster that was paused by its name stays so.",
		Example: "trivet failover resume\ntrivet failover resume --cluster prod",
		Method:  "POST", Path: "/v1/failover/resume", Dry: t, Of: "pauses",
		Input: func([]string) any {
			in.By = operator(t)
			return in
		},
		Show: func(left []admin.FailoverPause, _ []string) error { return printPauses(t, left) },
	}.Command(peer)
	c.Flags().StringVar(&in.Cluster, "cluster", "", "the pause of this cluster")
	c.Flags().StringVar(&in.Reason, "reason", "", "why, for the others")
	return c
}

// printPauses shows those that are in force.
func printPauses(t *term.Terminal, rows []admin.FailoverPause) error {
	if len(rows) == 0 && (t.Format == "table" || t.Format == "wide") {
		t.Say("nothing is paused")
		return nil
	}
	type row struct {
		Key                                string `col:"name"`
		Cluster, By, Since, EndsIn, Reason string
	}
	return t.Show(rows, term.Each(rows, func(r admin.FailoverPause) row {
		return row{r.Cluster, cmp.Or(r.Cluster, "(all)"), term.Printable(r.By), r.Since, r.EndsIn, term.Printable(r.Reason)}
	}))
}

func failoverRelease(t *term.Terminal, peer term.Peer) *cobra.Command {
	var in admin.ReleaseOrder
	var dry bool
	c := &cobra.Command{
		Use:   "release NODE",
		Short: "Let a remediation that is stuck go on, or end it",
		Long: "Let the remediation of a kube node that is stuck go on with fencing, or end it. Look first why it is: 'trivet failover show NODE'.\n" +
			"With --to cancelled nothing more is done about it, and no other remediation of the kube node begins before it was well again; if its\n" +
			"machine is off and its pods are not deleted, they stay where they are until then. With --to fencing, where none is open, the kube\n" +
			"node may be fenced again: in spite of an earlier cancel, and although its device once said off of a machine that lived, once the\n" +
			"mapping is right ('trivet failover test-fence NODE').",
		Example: "trivet failover release worker-1 --to fencing --reason 'new BMC password'",
	}
	c.Flags().StringVar(&in.To, "to", "", "fencing: try again; cancelled: end it")
	term.Complete(c, "to", "fencing", "cancelled")
	term.DryRunFlag(c, &dry)
	c.Flags().StringVar(&in.Reason, "reason", "", "why, for the others")
	c.RunE = func(c *cobra.Command, args []string) error {
		if in.To != "fencing" && in.To != "cancelled" {
			return term.Usage("--to: it is fencing or cancelled")
		}
		in.By = operator(t)
		open, err := remediationToRelease(c.Context(), peer, args[0], in.To == "fencing")
		if err != nil {
			return err
		}
		path := fmt.Sprintf("/v1/failover/remediations/%v/release", open.ID)
		if dry {
			return t.DryRun(c.Context(), peer, "remediations", "POST", path, in)
		}
		var now admin.Remediation
		if err := peer.Call(c.Context(), "POST", path, in, &now); err != nil {
			return err
		}
		if !now.Open && in.To == "fencing" {
			t.Say("%s/%s: it may be fenced again", now.Cluster, now.Node)
			return nil
		}
		t.Say("%s/%s: %s", now.Cluster, now.Node, now.State)
		return nil
	}
	return c
}

// remediationToRelease is the one that is open; with ended, if none is, the newest that has
// ended: it may keep the kube node from being fenced.
func remediationToRelease(ctx context.Context, peer term.Peer, node string, ended bool) (admin.Remediation, error) {
	cluster, name := splitNode(node)
	all, err := remediations(ctx, peer, 0, false)
	if err != nil {
		return admin.Remediation{}, err
	}
	own := ofNode(all, cluster, name)
	open := slices.DeleteFunc(slices.Clone(own), func(r admin.Remediation) bool { return !r.Open })
	if len(open) == 0 && ended { // the newest of each cluster
		slices.SortStableFunc(own, func(a, b admin.Remediation) int { return cmp.Compare(a.Cluster, b.Cluster) })
		open = slices.CompactFunc(own, func(a, b admin.Remediation) bool { return a.Cluster == b.Cluster })
	}
	switch len(open) {
	case 1:
		return open[0], nil
	case 0:
		return admin.Remediation{},
			term.Fail(term.ExitNotFound, "see 'trivet failover history'", "no remediation of %s is open", node)
	default:
		return admin.Remediation{},
			term.Fail(term.ExitConflict, "write CLUSTER/NODE; see 'trivet failover history'",
				"%d clusters have remediations of %s", len(open), node)
	}
}

// nodePath is a path about one kube node.
func nodePath(what, node string) string {
	cluster, name := splitNode(node)
	return "/v1/failover/" + what + "/" + url.PathEscape(cluster) + "/" + url.PathEscape(name)
}

func failoverSimulate(t *term.Terminal, peer term.Peer) *cobra.Command {
	var mode string
	c := &cobra.Command{
		Use:   "simulate NODE",
		Short: "Say what would be done if a kube node died now; nothing is changed",
		Long: "Say what would be done if a kube node died now, and what would forbid it: which devices would take its power, in which order, which\n" +
			"pods would be deleted, and which volumes would be waited for. Nothing is changed, and no device is asked ('trivet failover test-fence').\n" +
			"With --mode it is judged as if failover.mode were that: noobaa takes no power and leaves volumes alone.\n" +
			"The exit code is 0 where it would be remediated and 4 where something forbids it.",
		Example: "trivet failover simulate worker-1\ntrivet failover simulate worker-1 --mode noobaa",
		RunE: func(c *cobra.Command, args []string) error {
			var s admin.Simulation
			path := nodePath("simulation", args[0])
			if mode != "" {
				path += "?" + url.Values{"mode": {mode}}.Encode()
			}
			if err := peer.Call(c.Context(), "GET", path, nil, &s); err != nil {
				return err
			}
			if err := printSimulation(t, s); err != nil {
				return err
			}
			if !s.Would {
				return term.Fail(term.ExitConflict, "see 'trivet failover list -o wide'", "%s/%s would not be remediated: %s",
					s.Cluster, s.Node, strings.Join(s.Why, "; "))
			}
			return nil
		},
	}
	c.Flags().StringVar(&mode, "mode", "", "safe or noobaa: judge by this mode instead of failover.mode")
	term.Complete(c, "mode", config.FailoverSafe, config.FailoverNooBaa)
	return c
}

func printSimulation(t *term.Terminal, s admin.Simulation) error {
	return t.Show(s, term.Text{Names: s.Delete, Print: func() error {
		fmt.Fprintf(t.Out, "if %s/%s died now, %s would, in mode %s\n", s.Cluster, s.Node, s.Peer, s.Mode)
		step := 0
		say := func(format string, args ...any) {
			step++
			fmt.Fprintf(t.Out, "  %d. %s\n", step, term.Printable(fmt.Sprintf(format, args...)))
		}
		if !s.Would {
			for _, why := range s.Why {
				say("do nothing: %s", why)
			}
			return nil
		}
		if s.Mode == config.FailoverNooBaa {
			say("delete %d pods with grace 0 as soon as it is not Ready: %s", len(s.Delete),
				term.Dash(strings.Join(s.Delete, ", ")))
			fmt.Fprintf(t.Out, "power  is not taken: a machine that lives runs these pods on\n")
			fmt.Fprintf(t.Out, "leaves %d volumes attached until Kubernetes detaches them: %s\n", len(s.Volumes),
				term.Printable(term.Dash(strings.Join(s.Volumes, ", "))))
		} else {
			say("cordon it")
			if len(s.Devices) > 0 {
				say("take its power by %s, and see twice that it is off", strings.Join(s.Devices, ", then "))
			}
			say("taint it out of service")
			say("delete %d pods: %s", len(s.Delete), term.Dash(strings.Join(s.Delete, ", ")))
			say("wait until %d volumes are detached: %s", len(s.Volumes), term.Dash(strings.Join(s.Volumes, ", ")))
		}
		for _, k := range s.Keep {
			fmt.Fprintf(t.Out, "keeps  %s: %s\n", term.Printable(k.Pod), term.Printable(k.Why))
		}
		for _, b := range s.Budgets {
			fmt.Fprintf(t.Out, "budget %s is exhausted: a second kube node with pods of it waits until this one's are moved\n",
				term.Printable(b))
		}
		if s.Problem != "" {
			fmt.Fprintf(t.Out, "not known: %s\n", term.Printable(s.Problem))
		}
		return nil
	}})
}

// fenceFlags are the words of test-fence.
type fenceFlags struct {
	on, off bool
	local   bool
	device  string
	confirm string
}

func failoverTestFence(t *term.Terminal, peer term.Peer) *cobra.Command {
	var f fenceFlags
	c := &cobra.Command{
		Use:   "test-fence NODE",
		Short: "Ask the fence devices of a kube node whether its machine is on; with --off, switch it off",
		Long: "Ask every fence device of a kube node, from every peer, whether its machine is on: each peer may lead when it has to be switched off.\n" +
			"With --off or --on this peer switches it, and nothing else happens: no pod is deleted. At a terminal it asks for the\n" +
			"name of the kube node; a script writes --confirm NODE. The exit code is 1 where a device fails.",
		Example: "trivet failover test-fence worker-1\ntrivet failover test-fence worker-1 --off --confirm worker-1",
	}
	flags := c.Flags()
	flags.BoolVar(&f.off, "off", false, "SWITCH THE MACHINE OFF, without asking its operating system")
	flags.BoolVar(&f.on, "on", false, "switch the machine on")
	flags.BoolVar(&f.local, "local", false, "ask no other peer")
	flags.StringVar(&f.device, "device", "",
		"with --off or --on: this device, by its name in failover.fence_file (default: the first)")
	flags.StringVar(&f.confirm, "confirm", "", "with --off or --on: the name of the kube node, once more")
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.off && f.on {
			return term.Usage("--off and --on: write one of them")
		}
		if f.off || f.on {
			return switchPower(c.Context(), t, peer, args[0], f)
		}
		if f.device != "" || f.confirm != "" {
			return term.Usage("--device and --confirm: with --off or --on alone")
		}
		var rows []admin.FencePower
		if err := peer.Within(fenceLimit).Call(c.Context(), "GET", term.OnAll(nodePath("power", args[0]), !f.local), nil,
			&rows); err != nil {
			return err
		}
		return printPower(t, rows)
	}
	return c
}

func switchPower(ctx context.Context, t *term.Terminal, peer term.Peer, node string, f fenceFlags) error {
	_, name := splitNode(node)
	order := admin.PowerOrder{Power: admin.PowerOn, Device: f.device, Confirm: name}
	if f.off {
		order.Power = admin.PowerOff
	}
	if err := meant(t, node, name, order.Power, f.confirm); err != nil {
		return err
	}
	var row admin.FencePower
	if err := peer.Within(fenceLimit).Call(ctx, "POST", nodePath("power", node), order, &row); err != nil {
		return err
	}
	return printPower(t, []admin.FencePower{row})
}

// meant has the operator confirm that this machine is meant.
func meant(t *term.Terminal, node, name, power, confirmed string) error {
	hint := fmt.Sprintf("'trivet failover test-fence %s --%s --confirm %s'", node, power, name)
	switch {
	case confirmed == name:
		return nil
	case confirmed != "":
		return term.Usage("--confirm %s: the kube node is called %s", confirmed, name)
	case !term.IsTerminal(t.In):
		return term.Fail(term.ExitUsage, hint,
			"test-fence: standard input is not a terminal to confirm that %s shall be switched %s", name, power)
	}
	if !t.Ask(fmt.Sprintf("The machine of %s will be switched %s. Type the name of the kube node: ", node, power), name) {
		return term.Fail(term.ExitUsage, "nothing was changed", "test-fence: that was not the name of the kube node")
	}
	return nil
}

// printPower shows what each device says to each peer, and fails where not every device answers.
func printPower(t *term.Terminal, rows []admin.FencePower) error {
	type row struct {
		Key                                         string `col:"name"`
		Peer, Device, Power, Took, Ordered, Problem string
	}
	var cells []row
	var notes strings.Builder
	bad, all := 0, 0
	for _, r := range rows {
		if r.Error != "" {
			bad++
			cells = append(cells, row{"-", r.Peer, "-", "-", "0s", "", term.Printable(r.Error)})
		}
		if r.Note != "" {
			fmt.Fprintf(&notes, "%s: %s\n", r.Peer, term.Printable(r.Note))
		}
		for _, d := range r.Devices {
			all++
			if d.Error != "" {
				bad++
			}
			cells = append(cells, row{d.Device, r.Peer, d.Device, d.Power,
				(time.Duration(d.TookMS) * time.Millisecond).String(), d.Done, term.Printable(d.Error)})
			if d.Note != "" {
				fmt.Fprintf(&notes, "%s: device %s: %s\n", r.Peer, d.Device, term.Printable(d.Note))
			}
		}
	}
	err := t.Show(rows, func() error {
		if err := t.Table(cells); err != nil || t.Format == "name" {
			return err
		}
		fmt.Fprint(t.Out, notes.String())
		return nil
	})
	switch {
	case err != nil:
		return err
	case bad > 0:
		return term.Fail(term.ExitFailed,
			"see failover.fence_file and whether this host reaches the machine's BMC; until then this kube node may not be remediated",
			"%d of the answers are problems", bad)
	case all == 0:
		return term.Fail(term.ExitFailed, "name it in failover.fence_file",
			"no fence device is configured for this kube node")
	}
	return nil
}
