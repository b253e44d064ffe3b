package cli

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) transferCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "transfer [PEER]",
		Short: "Hand leadership to another peer, by name or ID; run it on the leader",
		Long: "Hand leadership to another peer, by name or ID, or without one to whichever is fit. The door and the floating IP go along, within seconds.\n" +
			"Run it on the leader.",
		RunE: func(c *cobra.Command, args []string) error {
			var in, now api.Transfer
			if len(args) == 1 {
				in.To = args[0]
			}
			if err := p.peer.Within(term.ShapeLimit).Call(c.Context(), "POST", "/v1/transfer", in, &now); err != nil {
				return err
			}
			p.Say("%s leads now", now.To)
			return nil
		},
	}
}
