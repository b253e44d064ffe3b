package simtest

import (
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// TestEveryPeerMoves gives each of three peers another address, one after the
// other and twice, under load and while leaders are lost: raft follows, and no
// acknowledged write is lost.
func TestEveryPeerMoves(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 61, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(4)
		losses := Losses()
		for round := range 2 {
			for i, p := range c.Peers {
				c.must(p.Kill())
				p.port = 7360 + 10*round + i
				c.must(p.Start())
				c.commit(membership.MoveMember{Peer: p.Name, Address: p.hostport()})
				c.Until(2*successionLimit, fmt.Sprintf("raft dials %s where it is", p.Name), func() bool { return c.dials(p) })
				c.settle(0)
				c.Lose(losses[(3*round+i)%len(losses)])
			}
		}
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(c.Peers[0])
	})
}

// dials says whether the leader's configuration has a peer where it is.
func (c *Cluster) dials(p *Peer) bool {
	leader := c.Leader()
	if leader == nil {
		return false
	}
	for _, srv := range leader.Core().Store.Servers() {
		if srv.ID == p.Name {
			return srv.Address == cluster.ServerAddress(p.Name, p.hostport())
		}
	}
	return false
}
