package cluster

import (
	"context"
	"strings"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// dryRun has the peer check a change as it would carry it out, and prints what it would
// change of the members. The peer answers at a path of its own: a daemon of v0.2.0, which
// may still run, does not know it, and changes nothing.
func dryRun(ctx context.Context, t *term.Terminal, peer term.Peer, method, path string, in any) error {
	var plan admin.Planned
	if err := peer.Call(ctx, method, "/v1/dry-run/"+strings.TrimPrefix(path, "/v1/"), in, &plan); err != nil {
		return err
	}
	return t.Show(plan, func() error { return t.PrintDiff("members", plan.Before, plan.After) })
}
