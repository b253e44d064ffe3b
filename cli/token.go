package cli

import (
	"context"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) tokenCommand() *cobra.Command {
	return term.Group("token", "Make, list, revoke and rotate join tokens", p.tokenCreate(), p.tokenList(), p.tokenRevoke(), p.tokenRotate())
}

func (p *program) tokenCreate() *cobra.Command {
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a join token and print the command to run on the new host",
		Long: "Make a join token and print the command to run on the new host; with -q the token alone. It carries the hash of the cluster's CA, so that a joiner\n" +
			"knows whom it talks to, and is good for any number of hosts until it ends or is revoked. Only the hash of its secret is kept.",
	}
	c.Flags().DurationVar(&ttl, "ttl", api.DefaultTokenTTL, "how long it is good for")
	c.RunE = func(c *cobra.Command, _ []string) error { return p.makeToken(c.Context(), "/v1/tokens", ttl) }
	return c
}

func (p *program) tokenRotate() *cobra.Command {
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Revoke every join token and make a new one",
		Long: "Revoke every join token and make a new one, for the day on which one was seen by the wrong people. Who joined with an old one stays.\n" +
			"If the new one cannot be made, none is left; run it again.",
	}
	c.Flags().DurationVar(&ttl, "ttl", api.DefaultTokenTTL, "how long the new one is good for")
	c.RunE = func(c *cobra.Command, _ []string) error { return p.makeToken(c.Context(), "/v1/tokens/rotation", ttl) }
	return c
}

func (p *program) makeToken(ctx context.Context, path string, ttl time.Duration) error {
	peer := p.peer
	var made api.Token
	if err := peer.Call(ctx, "POST", path, api.NewToken{TTL: ttl.String()}, &made); err != nil {
		return err
	}
	return p.Show(made, func() error {
		address, err := p.ownAddress(ctx, peer)
		if err != nil {
			return err
		}
		p.Say("token %s, for any number of hosts within %v; 'trivet token revoke %s' ends it:", made.ID, ttl, made.ID)
		p.PrintJoin(address, made.Secret, "")
		return nil
	})
}

// ownAddress is where others join through the peer that was asked.
func (p *program) ownAddress(ctx context.Context, peer term.Peer) (string, error) {
	var s api.Status
	if err := peer.Call(ctx, "GET", "/v1/status", nil, &s); err != nil {
		return "", err
	}
	var members []api.Member
	if err := peer.Call(ctx, "GET", term.Stale("/v1/members", true), nil, &members); err != nil {
		return "", err
	}
	for _, m := range members {
		if m.ID == s.ID {
			return m.Address, nil
		}
	}
	return "HOST:" + term.PeersPort, nil // removed meanwhile: any peer will do
}

func (p *program) tokenList() *cobra.Command {
	var stale bool
	c := &cobra.Command{Use: "list", Short: "List the join tokens that are good; secrets are not kept", Long: "List the join tokens that are good, with the time they are good for. Their secrets are not kept and cannot be shown again."}
	term.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []api.Token
		if err := p.peer.Call(c.Context(), "GET", term.Stale("/v1/tokens", stale), nil, &rows); err != nil {
			return err
		}
		type row struct {
			ID, ExpiresIn string
		}
		return p.Show(rows, term.Each(rows, func(t api.Token) row {
			return row{t.ID, t.ExpiresIn}
		}))
	}
	return c
}

func (p *program) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "End a join token before its time",
		Long:  "End a join token before its time. Whoever joined with it stays; 'trivet remove' takes a peer out.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.peer.Call(c.Context(), "DELETE", "/v1/tokens/"+url.PathEscape(args[0]), nil, nil); err != nil {
				return err
			}
			p.Say("token %s is void", args[0])
			return nil
		},
	}
}
