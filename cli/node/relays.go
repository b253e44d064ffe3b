package node

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

func relaysCommand(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Verb[[]admin.Relay]{
		Use:   "relays",
		Short: "List what ramdisks sent for Ironic, and whether Ironic has taken it",
		Long: "List the data that came to /v1/continue_inspection while inspection.continue_inspection is relay, the newest first: pending, taken\n" +
			"by Ironic, or failed, with what Ironic said last. The data itself is kept as long as reports are; where the node is known,\n" +
			"'trivet introspection data save --unprocessed' shows it.",
		Example: "trivet node relays",
		Method:  "GET", Path: "/v1/relays", Stale: true,
		Show: func(rows []admin.Relay, _ []string) error {
			type row struct {
				Key                                         string `col:"name"`
				Node, State, Tries, Accepted, Ended, Reason string
				Sequence, Document                          string `col:"wide"`
			}
			return t.Show(rows, term.Each(rows, func(r admin.Relay) row {
				return row{fmt.Sprint(r.Sequence), r.Node, r.State, fmt.Sprint(r.Tries), r.Accepted, r.Ended, r.Reason,
					fmt.Sprint(r.Sequence), r.Document}
			}))
		},
	}.Command(peer)
}
