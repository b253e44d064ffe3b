// Package node is the verbs about bare-metal nodes: their introspections, and the
// rules for them.
package node

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
)

// Node is 'trivet node'.
func Node(t *term.Terminal, peer term.Peer, local func(login bool) (string, error)) *cobra.Command {
	var confirm bool
	sync := &cobra.Command{
		Use:   "sync",
		Short: "Show why nodes or ports are kept though Ironic does not list them, or let them go",
		Long: "The leader deletes what is known of nodes that Ironic does not list any more. It does not believe a list that fails, is\n" +
			"empty, or lacks more than 10 nodes and more than one in five of those that are known here. Nor does it believe such a list\n" +
			"of ports: their MACs stay on the blacklist of the PXE filter. Without --confirm this command shows what is doubted; with it\n" +
			"the nodes that are missing now are deleted at the next round, and the MACs of the ports that are missing now leave the\n" +
			"blacklist. A list that says the same for 24 hours is believed without.",
		Example: "trivet node sync\ntrivet node sync --confirm",
	}
	sync.Flags().BoolVar(&confirm, "confirm", false, "delete the nodes, and the ports, that are missing now")
	sync.RunE = func(c *cobra.Command, _ []string) error {
		var now admin.Sync
		if err := peer.Call(c.Context(), "GET", "/v1/nodes/sync", nil, &now); err != nil {
			return err
		}
		if confirm {
			return confirmSync(c.Context(), t, peer, now)
		}
		return t.Show(now, func() error {
			for _, text := range syncTexts(now) {
				fmt.Fprintln(t.Out, term.Printable(text))
			}
			return nil
		})
	}
	asking := func(command func(*term.Terminal, *servers.Flags) *cobra.Command) *cobra.Command {
		flags := pflag.NewFlagSet("node", pflag.ContinueOnError) // of each command, as the others have none
		c := command(t, servers.New(t, local, flags))
		c.Flags().AddFlagSet(flags)
		return c
	}
	return term.Group("node", "Nodes that are known here", sync, asking(nodeHistoryCommand), asking(nodeDiffCommand),
		asking(nodeCablingCommand), asking(nodeExpectCommand), relaysCommand(t, peer))
}

// confirmSync confirms both lists, as far as there is something to confirm.
func confirmSync(ctx context.Context, t *term.Terminal, peer term.Peer, now admin.Sync) error {
	if now.Digest == "" && now.Ports == nil {
		return term.Fail(term.ExitConflict, "see 'trivet node sync'", "there is nothing to confirm")
	}
	confirm := func(s admin.Sync) error {
		return peer.Call(ctx, "PUT", "/v1/nodes/sync", admin.Sync{Digest: s.Digest}, nil)
	}
	if now.Digest != "" {
		if err := confirm(now); err != nil {
			return err
		}
		t.Say("%d nodes will be deleted at the next round, unless Ironic lists them by then", now.Missing)
	}
	if now.Ports != nil {
		if err := confirm(*now.Ports); err != nil {
			return err
		}
		t.Say("the MACs of %d ports will leave the blacklist at the next round, unless Ironic lists them by then",
			now.Ports.Missing)
	}
	return nil
}

// syncTexts say in words how the synchronisation of nodes stands, and why the list of ports is
// not believed.
func syncTexts(s admin.Sync) (texts []string) {
	switch {
	case !s.Suspected:
		texts = append(texts, "Ironic's list of nodes is believed")
	case s.Confirmed:
		texts = append(texts, fmt.Sprintf("%s; %d nodes are deleted at the next round", s.Reason, s.Missing))
	case s.Digest == "":
		texts = append(texts, s.Reason+"; no node is deleted")
	default:
		texts = append(texts, s.Reason+"; no node is deleted ('trivet node sync --confirm' allows it)")
	}
	switch ports := s.Ports; {
	case ports == nil:
	case ports.Confirmed:
		texts = append(texts,
			fmt.Sprintf("%s; the MACs of %d ports leave the blacklist at the next round", ports.Reason, ports.Missing))
	default:
		texts = append(texts, ports.Reason+"; their MACs stay on the blacklist ('trivet node sync --confirm' lets them go)")
	}
	return texts
}
