package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) relaysCommand() *cobra.Command {
	var stale bool
	c := &cobra.Command{
		Use:   "relays",
		Short: "List what ramdisks sent for Ironic, and whether Ironic has taken it",
		Long: "List the data that came to /v1/continue_inspection while inspection.continue_inspection is relay, the newest first: pending, taken\n" +
			"by Ironic, or failed, with what Ironic said last. The data itself is kept as long as reports are; where the node is known,\n" +
			"'trivet introspection data save --unprocessed' shows it.",
	}
	term.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []api.Relay
		if err := p.peer.Call(c.Context(), "GET", term.Stale("/v1/relays", stale), nil, &rows); err != nil {
			return err
		}
		type row struct {
			Key                                         string `col:"name"`
			Node, State, Tries, Accepted, Ended, Reason string
			Sequence, Document                          string `col:"wide"`
		}
		return p.Show(rows, term.Each(rows, func(r api.Relay) row {
			return row{fmt.Sprint(r.Sequence), r.Node, r.State, fmt.Sprint(r.Tries), r.Accepted, r.Ended, r.Reason, fmt.Sprint(r.Sequence), r.Document}
		}))
	}
	return c
}
