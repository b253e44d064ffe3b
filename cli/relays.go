package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
)

func (p *program) relaysCommand() *cobra.Command {
	var stale bool
	c := &cobra.Command{
		Use:   "relays",
		Short: "List what ramdisks sent for Ironic, and whether Ironic has taken it",
		Long: "List the data that came to /v1/continue_inspection while inspection.continue_inspection is relay, the newest first: pending, taken\n" +
			"by Ironic, or failed, with what Ironic said last. The data itself is kept as long as reports are; where the node is known,\n" +
			"'trivet introspection data save --unprocessed' shows it.",
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&stale, "stale", false, "answer from this peer's own state, also without a quorum")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []api.Relay
		if err := p.peer().call(c.Context(), "GET", staleable("/v1/relays", stale), nil, &rows); err != nil {
			return err
		}
		return table(p.out, p.format, rows, func(r api.Relay) string { return fmt.Sprint(r.Sequence) },
			column[api.Relay]{"NODE", false, func(r api.Relay) string { return dash(r.Node) }},
			column[api.Relay]{"STATE", false, func(r api.Relay) string { return r.State }},
			column[api.Relay]{"TRIES", false, func(r api.Relay) string { return fmt.Sprint(r.Tries) }},
			column[api.Relay]{"ACCEPTED", false, func(r api.Relay) string { return r.Accepted }},
			column[api.Relay]{"ENDED", false, func(r api.Relay) string { return dash(r.Ended) }},
			column[api.Relay]{"REASON", false, func(r api.Relay) string { return dash(r.Reason) }},
			column[api.Relay]{"SEQUENCE", true, func(r api.Relay) string { return fmt.Sprint(r.Sequence) }},
			column[api.Relay]{"DOCUMENT", true, func(r api.Relay) string { return r.Document }},
		)
	}
	return c
}
