package simtest

import (
	"context"

	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// upgradeHosts asks the other peers over the simulated network.
type upgradeHosts struct{ from *Peer }

// Knows implements cluster.UpgradeHosts.
func (u upgradeHosts) Knows(ctx context.Context, m membership.Member) (int, error) {
	to := u.from.c.Peer(m.ID)
	return Call(ctx, u.from.c.Net, u.from.Name, m.ID, func(context.Context) (int, error) {
		if core := to.Core(); core != nil {
			return core.Finalizer.Knows(), nil
		}
		return 0, logerr.ErrClosed
	})
}

// Announce implements cluster.UpgradeHosts.
func (u upgradeHosts) Announce(ctx context.Context, m membership.Member, version int) error {
	to := u.from.c.Peer(m.ID)
	_, err := Call(ctx, u.from.c.Net, u.from.Name, m.ID, func(ctx context.Context) (struct{}, error) {
		core := to.Core()
		if core == nil {
			return struct{}{}, logerr.ErrClosed
		}
		return struct{}{}, core.Session.Announce(ctx, core.Store, version)
	})
	return err
}
