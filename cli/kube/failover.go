// Package kube is the verbs about kube nodes and components in Kubernetes.
package kube

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// historyShown is how many remediations 'trivet failover history' lists unless
// it is told otherwise.
const historyShown = 50

// Failover is 'trivet failover'.
func Failover(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Group("failover", "Kube nodes: who died, what is done about it, and why not",
		term.Verb[admin.Failover]{
			Use:   "list",
			Short: "List the kube nodes: what would be done about each, and why nothing is",
			Long: "List the kube nodes as the leader sees them: how old their Leases are, how many peers their kubelets are silent to, what is done\n" +
				"or would be, and why nothing is being done: the first reason, or with -o wide all of them.\n" +
				"The peer here asks the leader.",
			Example: "trivet failover list",
			Method:  "GET", Path: "/v1/failover",
			Show: func(f admin.Failover, _ []string) error { return printFailover(t, f) },
		}.Command(peer),
		&cobra.Command{
			Use:   "show NODE",
			Short: "Show one kube node: every reason, and every step of what was done",
			Long: "Show one kube node: what the leader sees of it, every reason why nothing is being done, and the remediations that are kept of it,\n" +
				"each with its steps. NODE is the name of the kube node, or CLUSTER/NODE where several clusters have one of that name.",
			Example: "trivet failover show worker-1",
			RunE: func(c *cobra.Command, args []string) error {
				cluster, name := splitNode(args[0])
				var f admin.Failover
				if err := peer.Call(c.Context(), "GET", "/v1/failover", nil, &f); err != nil {
					return err
				}
				n, err := pickNode(f.Nodes, cluster, name)
				if err != nil {
					return err
				}
				all, err := remediations(c.Context(), peer, 0, false)
				if err != nil {
					return err
				}
				return printKubeNode(t, n, ofNode(all, n.Cluster, n.Name))
			},
		},
		failoverHistory(t, peer), failoverSimulate(t, peer),
		failoverPause(t, peer), failoverResume(t, peer), failoverRelease(t, peer), failoverTestFence(t, peer),
		failoverManifest(t))
}

func printFailover(t *term.Terminal, f admin.Failover) error {
	return t.Show(f, func() error {
		type row struct {
			Key                                                       string `col:"name"`
			Cluster, Node, Ready, Lease, Silent, State, Would, WhyNot string
			ControlPlane, Kubelet, Changed, Boot, UID                 string `col:"wide"`
		}
		err := t.Show(f.Nodes, term.Each(f.Nodes, func(n admin.KubeNode) row {
			remediation := "-"
			if n.Remediation != nil {
				remediation = n.Remediation.State
			}
			why := n.Why // with room all of them, else the one that counts
			if t.Format != "wide" {
				why = why[:min(len(why), 1)]
			}
			return row{kubeName(n), n.Cluster, n.Name, n.Ready, leaseText(n), votesText(n), remediation, n.Would,
				term.Printable(strings.Join(why, "; ")), term.YesNo(n.ControlPlane), n.Kubelet, n.Changed, n.BootID, n.UID}
		}))
		if err != nil || t.Format == "name" {
			return err
		}
		for _, remark := range failoverRemarks(f) {
			fmt.Fprintln(t.Out, term.Printable(remark))
		}
		return nil
	})
}

func kubeName(n admin.KubeNode) string { return n.Cluster + "/" + n.Name }

// leaseText rounds to what is of use next to a bound of seconds.
func leaseText(n admin.KubeNode) string {
	return (time.Duration(n.LeaseAgeMS) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// votesText says how many voters get no answer, of those who may vote.
func votesText(n admin.KubeNode) string { return fmt.Sprintf("%d of %d", n.Silent, n.Voters) }

// failoverRemarks are what concerns more than one kube node.
func failoverRemarks(f admin.Failover) []string {
	mode := f.Mode
	if f.DryRun {
		mode += ", dry run: nothing is done"
	}
	out := []string{fmt.Sprintf("leader %s, mode %s", f.Leader, mode)}
	if f.Mode == "noobaa" {
		out = append(out, "NOTHING IS FENCED in mode noobaa: a pod may run twice, and write one volume twice")
	}
	for _, pause := range f.Pauses {
		of, until := "all clusters", "until it is resumed"
		if pause.Cluster != "" {
			of = "cluster " + pause.Cluster
		}
		if pause.EndsIn != "" {
			until = "for " + pause.EndsIn + " more"
		}
		text := fmt.Sprintf("paused: %s, %s, by %s", of, until, term.Dash(pause.By))
		if pause.Reason != "" {
			text += ": " + pause.Reason
		}
		out = append(out, text)
	}
	for _, p := range f.Peers {
		out = append(out, fmt.Sprintf("peer %s runs on %s (same %s)", p.Peer, p.Node, p.By))
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

// splitNode takes NODE or CLUSTER/NODE; no name of Kubernetes has a slash.
func splitNode(text string) (cluster, name string) {
	if cluster, name, found := strings.Cut(text, "/"); found {
		return cluster, name
	}
	return admin.AnyCluster, text
}

func pickNode(nodes []admin.KubeNode, cluster, name string) (admin.KubeNode, error) {
	found := slices.DeleteFunc(slices.Clone(nodes), func(n admin.KubeNode) bool {
		return n.Name != name || cluster != admin.AnyCluster && n.Cluster != cluster
	})
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return admin.KubeNode{}, term.Fail(term.ExitNotFound, "see 'trivet failover list'", "no kube node is called %q", name)
	default:
		return admin.KubeNode{}, term.Fail(term.ExitConflict, "write CLUSTER/NODE; see 'trivet failover list'",
			"%d clusters have a kube node called %q", len(found), name)
	}
}

func ofNode(all []admin.Remediation, cluster, name string) []admin.Remediation {
	return slices.DeleteFunc(slices.Clone(all), func(r admin.Remediation) bool {
		return r.Node != name || cluster != admin.AnyCluster && r.Cluster != cluster
	})
}

// remediations are those that are kept, the newest first; limit 0: all.
func remediations(ctx context.Context, peer term.Peer, limit int, stale bool) (rows []admin.Remediation, err error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	if stale {
		query.Set("stale", "1")
	}
	err = peer.Call(ctx, "GET", "/v1/failover/remediations?"+query.Encode(), nil, &rows)
	return rows, err
}

func printKubeNode(t *term.Terminal, n admin.KubeNode, done []admin.Remediation) error {
	all := struct {
		Node         admin.KubeNode      `json:"node"`
		Remediations []admin.Remediation `json:"remediations"`
	}{n, done}
	return t.Show(all, term.Text{Names: []string{kubeName(n)}, Print: func() error {
		line := func(title, text string) { fmt.Fprintf(t.Out, "%-9s %s\n", title, term.Printable(text)) }
		line("node", kubeName(n))
		line("ready", fmt.Sprintf("%s, since %s", n.Ready, term.Dash(n.Changed)))
		line("lease", leaseText(n)+" old")
		line("kubelet", fmt.Sprintf("%s: silent to %s voters, answers %d", term.Dash(n.Kubelet), votesText(n), n.Answers))
		line("would", term.Dash(n.Would))
		for _, why := range n.Why {
			line("why not", why)
		}
		if t.Format == "wide" {
			line("boot", term.Dash(n.BootID))
			line("uid", n.UID)
		}
		for _, r := range done {
			fmt.Fprintf(t.Out, "\nremediation %v: %s since %s\n", r.ID, r.State, r.Since)
			for _, s := range r.Steps {
				fmt.Fprintf(t.Out, "  %s  %-9s %s: %s\n", s.At, s.State, term.Dash(s.Peer), term.Dash(term.Printable(s.Reason)))
			}
			// What it had is being given away: switched on by hand, it is switched off again.
			givenAway := []string{kubestate.RemOff.String(), kubestate.RemTainted.String(), kubestate.RemDeleted.String()}
			if r.Open && slices.Contains(givenAway, r.State) {
				fmt.Fprintln(t.Out,
					"  to switch the machine on by hand, pause failover first ('trivet failover\n  pause'): until its volumes are detached it is switched off again")
			}
		}
		return nil
	}})
}

func failoverHistory(t *term.Terminal, peer term.Peer) *cobra.Command {
	var limit int
	var stale bool
	c := &cobra.Command{
		Use:   "history [NODE]",
		Short: "List what was done, the newest first; of one kube node or of all",
		Long: "List the remediations of one kube node or of all, the newest first: those that are open, and those that ended within 30 days.\n" +
			"'trivet failover show NODE' has their steps.",
		Example: "trivet failover history\ntrivet failover history worker-1 --limit 5",
	}
	c.Flags().IntVar(&limit, "limit", historyShown, "list at most this many; 0: all that are kept")
	term.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		if limit < 0 {
			return term.Usage("--limit %d: it is 0 or more", limit)
		}
		fetched := limit
		if len(args) == 1 {
			fetched = 0 // of one node: look through all
		}
		rows, err := remediations(c.Context(), peer, fetched, stale)
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
		type row struct {
			ID, Cluster, Node, State, Began, Since, Device, Reason string
			Offs, Boot, UID                                        string `col:"wide"`
		}
		return t.Show(rows, term.Each(rows, func(r admin.Remediation) row {
			return row{r.ID.String(), r.Cluster, r.Node, r.State, r.Began, r.Since, r.Device, term.Printable(r.Reason),
				fmt.Sprint(r.Attempts), r.BootID, r.UID}
		}))
	}
	return c
}
