package cluster

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Waiting for a rotation: it has three steps, each of which waits for the log's
// timeout at most, and a change of leader may come in between.
const (
	rotationLook  = 500 * time.Millisecond
	rotationLimit = 4 * membership.GossipStepTimeout
)

const settled = "settled"

// Gossip is 'trivet gossip'.
func Gossip(t *term.Terminal, peer term.Peer) *cobra.Command {
	var noWait, dry bool
	rotate := &cobra.Command{
		Use:   "rotate-key",
		Short: "Replace the key under which peers gossip, on all of them",
		Long: "Replace the key under which peers gossip: the new one is made here and goes through the log. All peers accept it, then all speak under it, then\n" +
			"none accepts the old one any more; each step waits for the peers that live. A peer that is down takes the new key over when it is back.\n" +
			"The leader carries it on, and so does the next leader: it completes even if this command, the peer that was asked, or the leader ends.",
		Example: "trivet gossip rotate-key",
		RunE: func(c *cobra.Command, _ []string) error {
			if dry {
				return t.DryRun(c.Context(), peer, "gossip keys", "POST", "/v1/gossip/rotation", nil)
			}
			if err := peer.Call(c.Context(), "POST", "/v1/gossip/rotation", nil, nil); err != nil {
				return err
			}
			if noWait {
				t.Say("the rotation has begun; 'trivet gossip status' shows how it goes on")
				return nil
			}
			return awaitRotation(c.Context(), t, peer)
		},
	}
	term.DryRunFlag(rotate, &dry)
	rotate.Flags().BoolVar(&noWait, "no-wait", false, "return once it has begun")
	status := term.Verb[admin.GossipKeys]{
		Use:     "status",
		Short:   "Show how far a rotation of the gossip key has come",
		Long:    "Show how far a rotation of the gossip key has come, and for whom it waits. 'settled' is the end of one.",
		Example: "trivet gossip status",
		Method:  "GET", Path: "/v1/gossip", Stale: true,
		Show: func(now admin.GossipKeys, _ []string) error {
			return t.Show(now, now)
		},
	}.Command(peer)
	return term.Group("gossip", "The key under which peers gossip", rotate, status)
}

// awaitRotation tells each step as it is reached. A peer that cannot answer for
// a moment, as between two leaders, is asked again.
func awaitRotation(ctx context.Context, t *term.Terminal, peer term.Peer) error {
	ctx, cancel := context.WithTimeout(ctx, rotationLimit)
	defer cancel()
	last := ""
	for range pace.Every(ctx, rotationLook) {
		var now admin.GossipKeys
		err := peer.Call(ctx, "GET", "/v1/gossip", nil, &now)
		switch {
		case err == nil && now.Stage == settled:
			t.Say("the peers gossip under the new key alone")
			return nil
		case err == nil && now.Stage != last:
			t.Say("%s: waits for %s", now.Stage, term.Dash(strings.Join(now.Missing, ", ")))
			last = now.Stage
		}
	}
	return term.Fail(term.ExitOutcomeUnknown, "it goes on by itself: 'trivet gossip status'",
		"the rotation has not ended within %v", rotationLimit)
}
