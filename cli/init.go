package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/config"
)

func (p *program) initCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "init",
		Short: "Found a cluster on this host and print how others join",
		Long: "Found a cluster whose first peer is this host: its ID, its certificate authority and a join token for the others.\n" +
			"Standard output is the line to run on the other hosts; with -q the token alone. Where a peer lives already nothing changes.",
		Args: cobra.NoArgs,
	}
	p.optionFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return p.found(c.Context()) }
	return c
}

func (p *program) found(ctx context.Context) error {
	conf, err := p.load()
	if err != nil {
		return err
	}
	if id, _, err := app.Peek(conf.DataDir); err == nil {
		return p.foundAgain(ctx, conf, id)
	}
	dir, err := openDir(conf.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	made, err := p.host(conf).Init(dir)
	if errors.Is(err, app.ErrPeerExists) {
		return fail(ExitFailed, "if nothing else is in it, remove it and repeat this", "%s: %w, but it cannot be read", conf.DataDir, err)
	}
	if err != nil {
		return dirError(err)
	}
	p.say("%s is the first peer of cluster %s, in %s", made.Identity.Name, made.Identity.Cluster, conf.DataDir)
	p.sayServe(conf)
	p.say("on the others, within %v:", app.FirstTokenTTL)
	p.printJoin(made.Identity.Address, made.Token.String())
	return nil
}

// foundAgain answers an init where a peer lives: nothing changes. A script that
// asked for a token gets one if the peer runs.
func (p *program) foundAgain(ctx context.Context, conf config.Config, id app.Identity) error {
	if !p.quiet {
		p.say("%s is a peer of cluster %s already, in %s; nothing was changed", id.Name, id.Cluster, conf.DataDir)
		p.say("for the line that others join with: 'trivet token create'")
		return nil
	}
	var made api.Token
	if err := newClient(conf.Socket).call(ctx, "POST", "/v1/tokens", api.NewToken{}, &made); err != nil {
		return fail(ExitConflict, "start the peer ('trivet serve') and run 'trivet token create'",
			"%s is a peer already, and its first join token is not kept: %w", id.Name, err)
	}
	fmt.Fprintln(p.out, made.Secret)
	return nil
}

// printJoin prints the line to run on other hosts, or the token alone.
func (p *program) printJoin(address, token string) {
	if p.quiet {
		fmt.Fprintln(p.out, token)
		return
	}
	fmt.Fprintf(p.out, "trivet join %s --token %s\n", address, token)
}

// sayServe says what comes next, and what would keep it from working.
func (p *program) sayServe(conf config.Config) {
	var problems config.Problems
	if errors.As(conf.CheckServe(), &problems) {
		for _, problem := range problems {
			p.warn("before 'trivet serve': %v", problem)
		}
	}
	p.say("next, here: 'trivet serve', or 'systemctl start trivet'")
}

func (p *program) host(conf config.Config) app.Host {
	return app.Host{Config: conf, Binary: buildVersion(), Wall: p.wall, Random: p.random}
}
