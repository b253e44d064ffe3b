package pxe

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func firewallHeard(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Verb[[]api.Heard]{
		Use:   "heard",
		Short: "List the machines that asked to boot and are not under introspection",
		Long: "List the machines that asked to boot and are not under introspection, and why they are kept out or let in. The\n" +
			"leader's recorder keeps the newest 1,000 in memory (docs/pxe.md#recorder).",
		Example: "trivet firewall heard\ntrivet firewall heard -o wide",
		Method:  "GET", Path: "/v1/firewall/heard", Others: true,
		Show: func(rows []api.Heard, _ []string) error {
			type row struct {
				MAC, Last, Asked, Firmware, Verdict, Why string
				First, Relay, UUID, Offered, Peer        string `col:"wide"`
			}
			var all []row
			for _, h := range rows {
				for _, m := range h.Machines {
					all = append(all, row{m.MAC, m.Last, fmt.Sprint(m.Asked), m.Firmware, verdictText(m.Verdict), m.Why, m.First,
						m.Relay, m.UUID, m.Offered, h.Peer})
				}
			}
			if err := t.Show(rows, all); err != nil || t.Format != "table" && t.Format != "wide" {
				return err
			}
			for _, h := range rows { // below the table what does not fit into it
				if h.Error != "" {
					fmt.Fprintf(t.Out, "%-9s %s\n", h.Peer, term.Printable(h.Error))
				}
				if h.Unread > 0 {
					fmt.Fprintf(t.Out, "%-9s %d more messages were not read\n", h.Peer, h.Unread)
				}
			}
			return nil
		},
	}.Command(peer)
}
