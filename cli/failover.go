package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// historyShown is how many remediations 'trivet failover history' lists unless
// it is told otherwise.
const historyShown = 50

func (p *program) failoverCommand() *cobra.Command {
	return group("failover", "Kube nodes: who died, what is done about it, and why not",
		p.failoverList(), p.failoverShow(), p.failoverHistory(), p.failoverSimulate(),
		p.failoverPause(), p.failoverResume(), p.failoverRelease(), p.failoverTestFence(), p.failoverManifest())
}

func (p *program) failoverList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the kube nodes: what would be done about each, and why nothing is",
		Long: "List the kube nodes as the leader sees them: how old their Leases are, how many peers their kubelets are silent to, what is done\n" +
			"or would be, and why nothing is being done: the first reason, or with -o wide all of them.\n" +
			"The peer here asks the leader.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := p.failover(c.Context())
			if err != nil {
				return err
			}
			return p.printFailover(f)
		},
	}
}

func (p *program) failover(ctx context.Context) (f api.Failover, err error) {
	err = p.peer().call(ctx, "GET", "/v1/failover", nil, &f)
	return f, err
}

func (p *program) printFailover(f api.Failover) error {
	if p.format == "json" || p.format == "yaml" {
		return document(p.out, p.format, f)
	}
	err := table(p.out, p.format, f.Nodes, kubeName,
		column[api.KubeNode]{"CLUSTER", false, func(n api.KubeNode) string { return n.Cluster }},
		column[api.KubeNode]{"NODE", false, func(n api.KubeNode) string { return n.Name }},
		column[api.KubeNode]{"READY", false, func(n api.KubeNode) string { return n.Ready }},
		column[api.KubeNode]{"LEASE", false, leaseText},
		column[api.KubeNode]{"SILENT", false, votesText},
		column[api.KubeNode]{"STATE", false, func(n api.KubeNode) string { return stateText(n.Remediation) }},
		column[api.KubeNode]{"WOULD", false, func(n api.KubeNode) string { return dash(n.Would) }},
		column[api.KubeNode]{"WHY NOT", false, func(n api.KubeNode) string { return p.whyText(n.Why) }},
		column[api.KubeNode]{"CONTROL PLANE", true, func(n api.KubeNode) string { return yesNo(n.ControlPlane) }},
		column[api.KubeNode]{"KUBELET", true, func(n api.KubeNode) string { return dash(n.Kubelet) }},
		column[api.KubeNode]{"CHANGED", true, func(n api.KubeNode) string { return dash(n.Changed) }},
		column[api.KubeNode]{"BOOT", true, func(n api.KubeNode) string { return dash(n.BootID) }},
		column[api.KubeNode]{"UID", true, func(n api.KubeNode) string { return n.UID }},
	)
	if err != nil || p.format == "name" {
		return err
	}
	for _, remark := range failoverRemarks(f) {
		fmt.Fprintln(p.out, printable(remark))
	}
	return nil
}

func kubeName(n api.KubeNode) string { return n.Cluster + "/" + n.Name }

// leaseText rounds to what is of use beside a bound of seconds.
func leaseText(n api.KubeNode) string {
	return (time.Duration(n.LeaseAgeMS) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// votesText says how many voters get no answer, of those who may vote.
func votesText(n api.KubeNode) string { return fmt.Sprintf("%d of %d", n.Silent, n.Voters) }

func stateText(r *api.Remediation) string {
	if r == nil {
		return "-"
	}
	return r.State
}

// whyText is the reason that counts or, with room, all of them.
func (p *program) whyText(why []string) string {
	if len(why) == 0 {
		return "-"
	}
	if p.format == "wide" {
		return printable(strings.Join(why, "; "))
	}
	return printable(why[0])
}

// failoverRemarks are what concerns more than one kube node.
func failoverRemarks(f api.Failover) []string {
	mode := f.Mode
	if f.DryRun {
		mode += ", dry run: nothing is done"
	}
	out := []string{fmt.Sprintf("leader %s, mode %s", f.Leader, mode)}
	if f.Mode == "noobaa" {
		out = append(out, "NOTHING IS FENCED in mode noobaa: a pod may run twice, and write one volume twice")
	}
	for _, pause := range f.Pauses {
		out = append(out, pauseText(pause))
	}
	for _, c := range f.Clusters {
		switch {
		case c.Problem != "":
			out = append(out, fmt.Sprintf("cluster %s: %s", c.Name, c.Problem))
		case !c.Synced:
			out = append(out, fmt.Sprintf("cluster %s: the leader has not yet seen all of it", c.Name))
		}
	}
	return out
}

func pauseText(pause api.FailoverPause) string {
	of, until := "all clusters", "until it is resumed"
	if pause.Cluster != "" {
		of = "cluster " + pause.Cluster
	}
	if pause.EndsIn != "" {
		until = "for " + pause.EndsIn + " more"
	}
	text := fmt.Sprintf("paused: %s, %s, by %s", of, until, dash(pause.By))
	if pause.Reason != "" {
		text += ": " + pause.Reason
	}
	return text
}

func (p *program) failoverShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NODE",
		Short: "Show one kube node: every reason, and every step of what was done",
		Long: "Show one kube node: what the leader sees of it, every reason why nothing is being done, and the remediations that are kept of it,\n" +
			"each with its steps. NODE is the name of the kube node, or CLUSTER/NODE where several clusters have one of that name.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cluster, name := splitNode(args[0])
			f, err := p.failover(c.Context())
			if err != nil {
				return err
			}
			n, err := pickNode(f.Nodes, cluster, name)
			if err != nil {
				return err
			}
			all, err := p.remediations(c.Context(), 0, false)
			if err != nil {
				return err
			}
			return p.printKubeNode(n, ofNode(all, n.Cluster, n.Name))
		},
	}
}

// splitNode takes NODE or CLUSTER/NODE; no name of Kubernetes has a slash.
func splitNode(text string) (cluster, name string) {
	if cluster, name, found := strings.Cut(text, "/"); found {
		return cluster, name
	}
	return api.AnyCluster, text
}

func pickNode(nodes []api.KubeNode, cluster, name string) (api.KubeNode, error) {
	var found []api.KubeNode
	for _, n := range nodes {
		if n.Name == name && (cluster == api.AnyCluster || n.Cluster == cluster) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return api.KubeNode{}, fail(ExitNotFound, "see 'trivet failover list'", "no kube node is called %q", name)
	default:
		return api.KubeNode{}, fail(ExitConflict, "write CLUSTER/NODE; see 'trivet failover list'", "%d clusters have a kube node called %q", len(found), name)
	}
}

func ofNode(all []api.Remediation, cluster, name string) []api.Remediation {
	return slices.DeleteFunc(slices.Clone(all), func(r api.Remediation) bool {
		return r.Node != name || cluster != api.AnyCluster && r.Cluster != cluster
	})
}

// remediations are those that are kept, the newest first; limit 0: all.
func (p *program) remediations(ctx context.Context, limit int, stale bool) (rows []api.Remediation, err error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	if stale {
		query.Set("stale", "1")
	}
	err = p.peer().call(ctx, "GET", "/v1/failover/remediations?"+query.Encode(), nil, &rows)
	return rows, err
}

func (p *program) printKubeNode(n api.KubeNode, done []api.Remediation) error {
	switch p.format {
	case "json", "yaml":
		return document(p.out, p.format, struct {
			Node         api.KubeNode      `json:"node"`
			Remediations []api.Remediation `json:"remediations"`
		}{n, done})
	case "name":
		fmt.Fprintln(p.out, kubeName(n))
		return nil
	}
	line := func(title, text string) { fmt.Fprintf(p.out, "%-9s %s\n", title, printable(text)) }
	line("node", kubeName(n))
	line("ready", fmt.Sprintf("%s, since %s", n.Ready, dash(n.Changed)))
	line("lease", leaseText(n)+" old")
	line("kubelet", fmt.Sprintf("%s: silent to %s voters, answers %d", dash(n.Kubelet), votesText(n), n.Answers))
	line("would", dash(n.Would))
	for _, why := range n.Why {
		line("why not", why)
	}
	if p.format == "wide" {
		line("boot", dash(n.BootID))
		line("uid", n.UID)
	}
	for _, r := range done {
		fmt.Fprintln(p.out)
		p.printRemediation(r)
	}
	return nil
}

func (p *program) printRemediation(r api.Remediation) {
	fmt.Fprintf(p.out, "remediation %v: %s since %s\n", r.ID, r.State, r.Since)
	for _, s := range r.Steps {
		fmt.Fprintf(p.out, "  %s  %-9s %s: %s\n", s.At, s.State, dash(s.Peer), dash(printable(s.Reason)))
	}
	if keptOff(r) {
		fmt.Fprintln(p.out, "  to switch the machine on by hand, pause failover first ('trivet failover\n  pause'): until its volumes are detached it is switched off again")
	}
}

// keptOff reports whether a machine that is switched on by hand is switched off again:
// what it had is being given away.
func keptOff(r api.Remediation) bool {
	return r.Open && slices.Contains([]string{fsm.RemOff.String(), fsm.RemTainted.String(), fsm.RemDeleted.String()}, r.State)
}

func (p *program) failoverHistory() *cobra.Command {
	var limit int
	var stale bool
	c := &cobra.Command{
		Use:   "history [NODE]",
		Short: "List what was done, the newest first; of one kube node or of all",
		Long: "List the remediations of one kube node or of all, the newest first: those that are open, and those that ended within 30 days.\n" +
			"'trivet failover show NODE' has their steps.",
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().IntVar(&limit, "limit", historyShown, "list at most this many; 0: all that are kept")
	c.Flags().BoolVar(&stale, "stale", false, "answer from this peer's own state, also without a quorum")
	c.RunE = func(c *cobra.Command, args []string) error {
		if limit < 0 {
			return usage("--limit %d: it is 0 or more", limit)
		}
		fetched := limit
		if len(args) == 1 {
			fetched = 0 // of one node: look through all
		}
		rows, err := p.remediations(c.Context(), fetched, stale)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			cluster, name := splitNode(args[0])
			rows = ofNode(rows, cluster, name)
		}
		if limit > 0 && len(rows) > limit {
			rows = rows[:limit]
		}
		return p.printHistory(rows)
	}
	return c
}

func (p *program) printHistory(rows []api.Remediation) error {
	return table(p.out, p.format, rows, func(r api.Remediation) string { return r.ID.String() },
		column[api.Remediation]{"ID", false, func(r api.Remediation) string { return r.ID.String() }},
		column[api.Remediation]{"CLUSTER", false, func(r api.Remediation) string { return r.Cluster }},
		column[api.Remediation]{"NODE", false, func(r api.Remediation) string { return r.Node }},
		column[api.Remediation]{"STATE", false, func(r api.Remediation) string { return r.State }},
		column[api.Remediation]{"BEGAN", false, func(r api.Remediation) string { return dash(r.Began) }},
		column[api.Remediation]{"SINCE", false, func(r api.Remediation) string { return dash(r.Since) }},
		column[api.Remediation]{"DEVICE", false, func(r api.Remediation) string { return dash(r.Device) }},
		column[api.Remediation]{"REASON", false, func(r api.Remediation) string { return dash(printable(r.Reason)) }},
		column[api.Remediation]{"OFFS", true, func(r api.Remediation) string { return fmt.Sprint(r.Attempts) }},
		column[api.Remediation]{"BOOT", true, func(r api.Remediation) string { return dash(r.BootID) }},
		column[api.Remediation]{"UID", true, func(r api.Remediation) string { return r.UID }},
	)
}
