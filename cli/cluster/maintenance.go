package cluster

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// Maintenance is 'trivet maintenance'.
func Maintenance(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Group("maintenance", "Keep a peer from leading and working while its host is worked on",
		maintenance(t, peer, "on", "trivet maintenance on\ntrivet maintenance on h2",
			"Put a peer into maintenance; without a name this one",
			"Put a peer into maintenance, by name or ID; without one this peer. It hands leadership on if it leads, never leads, and claims no more nodes;\n"+
				"what it has begun it ends. It votes, serves the API and forwards, and its /readyz answers 503, so that a balancer sends no requests there.\n"+
				"It lasts until 'trivet maintenance off', also through restarts. It is refused where no other peer could lead.",
			true),
		maintenance(t, peer, "off", "trivet maintenance off h2", "End the maintenance of a peer; without a name of this one",
			"End the maintenance of a peer, by name or ID; without one of this peer. Where every voter that lives is in maintenance no peer leads: run it on\n"+
				"one of them, where it needs no leader.", false))
}

func maintenance(t *term.Terminal, peer term.Peer, use, example, short, long string, on bool) *cobra.Command {
	var force, dry bool
	c := &cobra.Command{Use: use + " [PEER]", Short: short, Long: long, Example: example}
	term.DryRunFlag(c, &dry)
	if on {
		c.Flags().BoolVar(&force, "force", false, "although no other peer could lead")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		in := admin.Exclusion{Peer: term.OnlyArg(args), On: on, Force: force}
		if dry {
			return hintForce(t.DryRun(c.Context(), peer, "members", "PUT", "/v1/maintenance", in), force)
		}
		name, err := exclude(c.Context(), peer, "/v1/maintenance", in)
		if err != nil {
			return err
		}
		if on {
			t.Say("%s is in maintenance, until 'trivet maintenance off %s'", name, name)
		} else {
			t.Say("%s is not in maintenance", name)
		}
		return nil
	}
	return c
}

// exclude decides something of a peer and returns its name.
func exclude(ctx context.Context, peer term.Peer, path string, in admin.Exclusion) (name string, err error) {
	if name = in.Peer; name == "" {
		var s api.Status
		if err := peer.Call(ctx, "GET", "/v1/status", nil, &s); err != nil {
			return "", err
		}
		name = s.Name
	}
	return name, hintForce(peer.Within(term.ShapeLimit).Call(ctx, "PUT", path, in, nil), in.Force)
}

func membersPromote(t *term.Terminal, peer term.Peer) *cobra.Command {
	var force, dry bool
	c := &cobra.Command{
		Use:     "promote PEER",
		Short:   "Make an observer a voter, by name or ID",
		Long:    "Make an observer a voter, by name or ID, once it has kept up with the log for 2 s. It is refused while that one does not live: it would only raise\nthe majority that the others need.",
		Example: "trivet members promote h4",
	}
	c.Flags().BoolVar(&force, "force", false, "although it does not live; returns without waiting for its vote")
	term.DryRunFlag(c, &dry)
	c.RunE = func(c *cobra.Command, args []string) error {
		in := admin.Exclusion{Peer: args[0], Force: force}
		if dry {
			return hintForce(t.DryRun(c.Context(), peer, "members", "PUT", "/v1/observer", in), force)
		}
		name, err := exclude(c.Context(), peer, "/v1/observer", in)
		if err == nil {
			t.Say("%s votes", name)
		}
		return err
	}
	return c
}

func membersDemote(t *term.Terminal, peer term.Peer) *cobra.Command {
	var force, dry bool
	c := &cobra.Command{
		Use:   "demote PEER",
		Short: "Make a voter an observer, by name or ID",
		Long: "Make a voter an observer, by name or ID: it follows the log, serves, forwards and works, counts in no majority and never leads. A leader hands\n" +
			"leadership on first. It refuses, with the arithmetic, if the voters that remain could not go on.",
		Example: "trivet members demote h3",
	}
	c.Flags().BoolVar(&force, "force", false, "although the rest cannot go on without more peers")
	term.DryRunFlag(c, &dry)
	c.RunE = func(c *cobra.Command, args []string) error {
		in := admin.Exclusion{Peer: args[0], On: true, Force: force}
		if dry {
			return hintForce(t.DryRun(c.Context(), peer, "members", "PUT", "/v1/observer", in), force)
		}
		name, err := exclude(c.Context(), peer, "/v1/observer", in)
		if err == nil {
			t.Say("%s is an observer", name)
		}
		return err
	}
	return c
}
