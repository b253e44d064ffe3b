package cluster

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// Token is 'trivet token'.
func Token(t *term.Terminal, peer term.Peer) *cobra.Command {
	list := term.Verb[[]admin.Token]{
		Use:     "list",
		Short:   "List the join tokens that are good; secrets are not kept",
		Long:    "List the join tokens that are good, with the time they are good for. Their secrets are not kept and cannot be shown again.",
		Example: "trivet token list",
		Method:  "GET", Path: "/v1/tokens", Stale: true,
		Show: func(tokens []admin.Token, _ []string) error {
			type row struct{ ID, ExpiresIn string }
			return t.Show(tokens, term.Each(tokens, func(t admin.Token) row { return row{t.ID, t.ExpiresIn} }))
		},
	}.Command(peer)
	revoke := term.Verb[term.None]{
		Use:     "revoke ID",
		Short:   "End a join token before its time",
		Long:    "End a join token before its time. Peers that joined with it stay; 'trivet remove' removes a peer.",
		Example: "trivet token revoke 3f9c0a1b",
		Method:  "DELETE", Path: "/v1/tokens/{ID}",
		Show: t.Said("token %s is void"), Dry: t, Of: "join tokens",
	}.Command(peer)
	create := makesToken(t, peer, "/v1/tokens", "how long it is good for", &cobra.Command{
		Use:   "create",
		Short: "Make a join token and print the command to run on the new host",
		Long: "Make a join token and print the command to run on the new host; with -q the token alone. It carries the hash of the cluster's CA, so that a joiner\n" +
			"knows whom it talks to, and is good for any number of hosts until it ends or is revoked. Only the hash of its secret is kept.",
		Example: "trivet token create\ntrivet token create --ttl 1h",
	})
	rotate := makesToken(t, peer, "/v1/tokens/rotation", "how long the new one is good for", &cobra.Command{
		Use:   "rotate",
		Short: "Revoke every join token and make a new one",
		Long: "Revoke every join token and make a new one, for the day on which one was seen by the wrong people. Who joined with an old one stays.\n" +
			"If the new one cannot be made, none is left; run it again.",
		Example: "trivet token rotate",
	})
	return term.Group("token", "Make, list, revoke and rotate join tokens", create, list, revoke, rotate)
}

// makesToken has a command make a token.
func makesToken(t *term.Terminal, peer term.Peer, path, ttlHelp string, c *cobra.Command) *cobra.Command {
	var ttl time.Duration
	var dry bool
	c.Flags().DurationVar(&ttl, "ttl", admin.DefaultTokenTTL, ttlHelp)
	term.DryRunFlag(c, &dry)
	c.RunE = func(c *cobra.Command, _ []string) error {
		in := admin.NewToken{TTL: ttl.String()}
		if dry {
			return t.DryRun(c.Context(), peer, "join tokens", "POST", path, in)
		}
		var made admin.Token
		if err := peer.Call(c.Context(), "POST", path, in, &made); err != nil {
			return err
		}
		return t.Show(made, func() error {
			address, err := ownAddress(c.Context(), peer)
			if err != nil {
				return err
			}
			t.Say("token %s, for any number of hosts within %v; 'trivet token revoke %s' ends it:", made.ID, ttl, made.ID)
			t.PrintJoin(address, made.Secret)
			return nil
		})
	}
	return c
}

// ownAddress is where others join through the peer that was asked.
func ownAddress(ctx context.Context, peer term.Peer) (string, error) {
	var s api.Status
	if err := peer.Call(ctx, "GET", "/v1/status", nil, &s); err != nil {
		return "", err
	}
	var members []admin.Member
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
