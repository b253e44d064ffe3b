package simtest

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// doorLimit bounds, in virtual time, the hand-over of the door: the watchdog's
// 2 s, an election, D, and slack for a split vote.
const doorLimit = successionLimit + 2*doorLease

// handOvers is how many hand-overs a run of TestOneDoor makes.
func handOvers() int {
	if n, err := strconv.Atoi(os.Getenv("TRIVET_SIM_HANDOVERS")); err == nil {
		return n
	}
	if testing.Short() {
		return 30
	}
	return 120
}

// TestOneDoor loses leaders in every way there is, with wrong clocks on the wall
// now and then: at no instant two doors are open or two hosts have the address
// (assertions one-door and one-address), and a door opens again each time.
func TestOneDoor(t *testing.T) {
	Simulate(t, 3, 300, func(c *Cluster) {
		ports := &PortTable{}
		ports.Set(fsm.Port{ID: "p1", MAC: "52:54:00:00:00:01", Node: "00000000-0000-4000-8000-000000000001"})
		c.withDoors(ports)
		losses := Losses()
		var slowest time.Duration
		for n := range handOvers() {
			c.awaitDoor()
			if n%7 == 0 {
				c.Peers[n%3].SetSkew([]time.Duration{2 * time.Hour, -5 * time.Hour, 0}[n/7%3])
			}
			old := c.OpenDoor()
			began := time.Now()
			c.Lose(losses[n%len(losses)])
			c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old || c.reopened(old) })
			slowest = max(slowest, time.Since(began))
			for _, p := range c.Peers {
				p.SetSkew(0)
			}
		}
		t.Logf("%d hand-overs, the slowest took %v", handOvers(), slowest)
	})
}

// reopened reports whether the peer that lost the door got it back.
func (c *Cluster) reopened(p *Peer) bool { return c.Leader() == p && c.OpenDoor() == p }

// awaitDoor waits until the leader's door is open and the address is there.
func (c *Cluster) awaitDoor() {
	c.T.Helper()
	c.Until(doorLimit, "the leader opens and holds the address", func() bool {
		l := c.Leader()
		return l != nil && c.OpenDoor() == l && c.Holder() == l
	})
}

// withDoors restarts the peers of a fresh cluster with doors to guard.
func (c *Cluster) withDoors(ports *PortTable) {
	GuardDoors(c, ports)
	for _, p := range c.Peers {
		c.must(p.Kill())
		c.must(p.Start())
	}
}
