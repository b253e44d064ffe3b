package cluster

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// Transfer is 'trivet transfer'.
func Transfer(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Verb[admin.Transfer]{
		Use:   "transfer [PEER]",
		Short: "Hand leadership to another peer, by name or ID; run it on the leader",
		Long: "Hand leadership to another peer, by name or ID, or without one to whichever is fit. The door and the floating IP go along, within seconds. " +
			"Run it on the leader.",
		Example: "trivet transfer\ntrivet transfer h2",
		Method:  "POST", Path: "/v1/transfer", Limit: term.ShapeLimit,
		Input: func(args []string) any { return admin.Transfer{To: term.OnlyArg(args)} },
		Show: func(now admin.Transfer, _ []string) error {
			t.Say("%s leads now", now.To)
			return nil
		},
	}.Command(peer)
}
