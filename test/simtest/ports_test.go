package simtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// simulateWithPorts is Simulate for peers with ports of their own.
func simulateWithPorts(t *testing.T, n int, seed uint64, f func(c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := seedCluster(t, n, seed, &ports{})
		defer c.end()
		c.start()
		f(c)
	})
}

// TestPeersPortInTheBubble loses leaders in every way over the peers' port of the product.
// Gossip and probes see who is there, the forwarder carries writes and reads, and a
// certificate is renewed while everything goes on.
func TestPeersPortInTheBubble(t *testing.T) {
	simulateWithPorts(t, 3, 57, func(c *Cluster) {
		load := c.StartLoad(4)
		c.settle(0)
		for i, how := range Losses() {
			gap := c.Lose(how)
			t.Logf("%s: no leader for %v", how.Name, gap)
			p := c.Peers[i%len(c.Peers)]
			open := p.run.Load().open
			c.must(open.renewal.Renew(p.Core().Store.View()))
		}
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(c.Peers[0])
		if load.Acked() < 100 {
			t.Errorf("only %d writes were acknowledged", load.Acked())
		}
		c.Until(time.Minute, "gossip sees every peer", func() bool {
			for _, p := range c.Peers {
				states := p.run.Load().open.gossip.States()
				for _, other := range c.Peers {
					if states[other.Name] != "alive" {
						return false
					}
				}
			}
			return true
		})
		away := c.Others(c.AwaitLeader(successionLimit))[0]
		c.must(away.Kill())
		c.Until(time.Minute, "gossip misses one that was killed", func() bool {
			return c.AwaitLeader(successionLimit).run.Load().open.gossip.States()[away.Name] != "alive"
		})
		c.must(away.Start())
		c.commit(fsm.Probe{})
		c.settle(0)
	})
}
