package cluster

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

const (
	pathMaintenance = "/v1/maintenance"
	pathObserver    = "/v1/observer"
)

// Maintenance is 'trivet maintenance'.
func Maintenance(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Group("maintenance", "Keep a peer from leading and working while its host is worked on",
		exclusion{path: pathMaintenance, on: true, force: "although no other peer could lead",
			done: "%s is in maintenance, until 'trivet maintenance off %[1]s'"}.command(t, peer, &cobra.Command{
			Use:   "on [PEER]",
			Short: "Put a peer into maintenance; without a name this one",
			Long: "Put a peer into maintenance, by name or ID; without one this peer. It hands leadership on if it leads, never leads, and claims no more nodes;\n" +
				"what it has begun it ends. It votes, serves the API and forwards, and its /readyz answers 503, so that a balancer sends no requests there.\n" +
				"It lasts until 'trivet maintenance off', also through restarts. It is refused where no other peer could lead.",
			Example: "trivet maintenance on\ntrivet maintenance on h2",
		}),
		exclusion{path: pathMaintenance, done: "%s is not in maintenance"}.command(t, peer, &cobra.Command{
			Use:   "off [PEER]",
			Short: "End the maintenance of a peer; without a name of this one",
			Long: "End the maintenance of a peer, by name or ID; without one of this peer. Where every voter that lives is in maintenance no peer leads: run it on\n" +
				"one of them, where it needs no leader.",
			Example: "trivet maintenance off h2",
		}))
}

// exclusion keeps a peer from something, or no longer.
type exclusion struct {
	path  string
	on    bool
	force string // what --force is for; "": there is none
	done  string // a format for the peer's name
}

// command adds what it does, and its flags. A peer that is not named is the one here.
func (e exclusion) command(t *term.Terminal, peer term.Peer, c *cobra.Command) *cobra.Command {
	var force, dry bool
	term.DryRunFlag(c, &dry)
	if e.force != "" {
		c.Flags().BoolVar(&force, "force", false, e.force)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		in := admin.Exclusion{Peer: term.OnlyArg(args), On: e.on, Force: force}
		if dry {
			return hintForce(t.DryRun(c.Context(), peer, "members", "PUT", e.path, in), force)
		}
		here := api.Build{Name: in.Peer}
		if here.Name == "" {
			if err := peer.Call(c.Context(), "GET", "/v1/status", nil, &here); err != nil {
				return err
			}
		}
		err := hintForce(peer.Within(term.ShapeLimit).Call(c.Context(), "PUT", e.path, in, nil), force)
		if err == nil {
			t.Say(e.done, here.Name)
		}
		return err
	}
	return c
}
