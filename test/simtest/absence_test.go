package simtest

import (
	"context"
	"testing"
	"time"
)

// TestReturnAfterAnAbsence kills a follower for longer and longer and demands
// that it has caught up, with a session of its own, soon after it was started:
// whoever upgrades one host after the other waits for that. What waits for a
// follower is let go when its leader leads no more.
func TestReturnAfterAnAbsence(t *testing.T) {
	t.Parallel()
	const soon = 1500 * time.Millisecond
	Simulate(t, 3, 97, func(c *Cluster) {
		for _, away := range []time.Duration{10 * time.Second, time.Minute} {
			c.settle(0)
			load := c.StartLoad(1)
			p := c.Others(c.AwaitLeader(successionLimit))[0]
			c.must(p.Kill())
			time.Sleep(away) // in a bubble
			load.Stop()
			newest, _ := c.newest()
			c.must(p.Start())
			began := time.Now()
			c.Until(successionLimit, p.Name+" has caught up", func() bool {
				core := p.Core()
				return core.Store.View().Index() >= newest.Index() && !core.Session.ID().IsZero()
			})
			took := time.Since(began)
			t.Logf("after %v away caught up in %v", away, took)
			if took > soon {
				c.Oracle.broken("late-return: after %v away %s caught up in %v, want at most %v", away, p.Name, took, soon)
			}
		}
		leader := c.AwaitLeader(successionLimit)
		p := c.Others(leader)[0]
		c.must(p.Kill())
		time.Sleep(10 * time.Second)                       // in a bubble: entries are held for p
		c.must(leader.Core().Resign(context.Background())) // and those who held them are waited for at the end
		c.AwaitLeader(successionLimit, leader)
		c.must(p.Start())
		c.settle(0)
	})
}
