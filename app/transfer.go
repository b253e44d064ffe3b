package app

import (
	"context"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// tookLimit bounds the wait for the peer that leadership was handed to: it asks
// for votes at once, so it has them within an election, or never.
const tookLimit = 2 * time.Second

// HandOn gives leadership to a voter, or to the best one if its ID is "". PXE service
// closes first and the log says so, so that the next leader opens at once instead of
// waiting for as long as it may be open; it stays open where no voter may be asked. If no
// peer takes leadership, this one leads again, by another token, and opens again.
func (c *Core) HandOn(ctx context.Context, to raftstore.Server) error {
	self := c.Store.ID()
	if err := leader.MayHandOn(c.Store, self, to); err != nil {
		return err
	}
	role, _ := c.Store.Role()
	c.yield(ctx)
	err := leader.HandOn(ctx, c.Store, self, to)
	if err == nil {
		err = c.taken(ctx, role.Change)
	}
	if err != nil {
		c.Runner.Restart()
	}
	return err
}

// yield shuts the door of this leadership, and says so in the log.
func (c *Core) yield(ctx context.Context) {
	if c.gate != nil {
		c.gate.yield(ctx)
	}
}

// taken waits until raft took leadership away here.
func (c *Core) taken(ctx context.Context, change uint64) error {
	ctx, cancel := context.WithTimeout(ctx, tookLimit)
	defer cancel()
	for {
		role, changed := c.Store.Role()
		if role.Change != change {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the other peer did not take leadership within %v", tookLimit)
		}
	}
}
