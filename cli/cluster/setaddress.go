package cluster

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

func membersSetAddress(t *term.Terminal, peer term.Peer) *cobra.Command {
	var to admin.Address
	c := term.Verb[term.None]{
		Use:   "set-address PEER HOST:PORT",
		Short: "Tell the cluster where a peer is dialled from now on",
		Long: "Tell the cluster where the peers' port of a peer, by name or ID, is dialled from now on. A peer whose own configuration or host says so tells it " +
			"by itself when it starts; this is for one that cannot. What that peer finds out by itself counts when it next starts: write cluster.advertise there.",
		Example: "trivet members set-address h2 192.0.2.22:7350",
		Method:  "PUT", Path: "/v1/members/{PEER}/address", Limit: term.ShapeLimit, Dry: t, Of: "members",
		Input: func(args []string) any {
			to.Cluster = args[1]
			return to
		},
		Show: t.Said("%s is dialled at %s"),
	}.Command(peer)
	c.Flags().StringVar(&to.Gossip, "gossip", "", "HOST:PORT of its gossip, if that has changed")
	return c
}
