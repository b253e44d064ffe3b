package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) membersSetAddress() *cobra.Command {
	var to api.Address
	c := &cobra.Command{
		Use:   "set-address PEER HOST:PORT",
		Short: "Tell the cluster where a peer is dialled from now on",
		Long: "Tell the cluster where the peers' port of a peer, by name or ID, is dialled from now on. A peer whose own configuration or host says so tells it\n" +
			"by itself when it starts; this is for one that cannot. What that peer finds out by itself counts when it next starts: write cluster.advertise there.",
	}
	c.Flags().StringVar(&to.Gossip, "gossip", "", "HOST:PORT of its gossip, if that has changed")
	c.RunE = func(c *cobra.Command, args []string) error {
		to.Cluster = args[1]
		if err := p.peer.Within(term.ShapeLimit).Call(c.Context(), "PUT", "/v1/members/"+url.PathEscape(args[0])+"/address", to, nil); err != nil {
			return err
		}
		p.Say("%s is dialled at %s", args[0], to.Cluster)
		return nil
	}
	return c
}
