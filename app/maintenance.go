package app

import "context"

// maintained says whether an operator has put this peer into maintenance.
func (c *Core) maintained() bool { return c.Store.View().MemberFlags(c.Store.ID()).Maintenance }

// followMaintenance lets the workers claim nothing while this peer is in
// maintenance; what they have begun they end.
func (c *Core) followMaintenance(ctx context.Context) {
	rests := false
	for {
		_, changed := c.Store.Changed()
		if now := c.maintained(); now != rests {
			rests = now
			c.log.Info("maintenance changed", "maintenance", now)
			c.inspect.Workers.Pause(now)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
