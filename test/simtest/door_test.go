package simtest

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/raftstore/leader"
)

// doorLimit bounds, in virtual time, the hand-over of the door: the watchdog's
// 2 s, an election, D, and slack for a split vote.
const doorLimit = successionLimit + 2*doorLease

// handOvers is how many hand-overs a run of TestOneDoor makes.
func handOvers(t *testing.T) int {
	usual := 120
	if testing.Short() {
		usual = 30
	}
	return countFrom(t, "TRIVET_SIM_HANDOVERS", usual)
}

// handOverBatch is how many hand-overs one cluster of TestOneDoor sees.
const handOverBatch = 120

// TestOneDoor loses leaders in every way there is, with wrong clocks on the wall
// now and then: at no instant two doors are open or two hosts have the address
// (assertions one-door and one-address), and a door opens again each time.
func TestOneDoor(t *testing.T) {
	t.Parallel()
	var slowest time.Duration
	for done := 0; done < handOvers(t); done += handOverBatch {
		Simulate(t, 3, uint64(3000+done), func(c *Cluster) {
			c.withDoors(&PortTable{})
			for n := range min(handOverBatch, handOvers(t)-done) {
				slowest = max(slowest, c.handOver(n))
			}
		})
	}
	t.Logf("%d hand-overs, the slowest took %v", handOvers(t), slowest)
}

// handOver loses the leader in the n-th way and waits for an open door; it
// returns how long that took.
func (c *Cluster) handOver(n int) time.Duration {
	c.T.Helper()
	losses := Losses()
	c.awaitDoor()
	if n%7 == 0 {
		c.Peers[n%3].SetSkew([]time.Duration{2 * time.Hour, -5 * time.Hour, 0}[n/7%3])
	}
	old := c.OpenDoor()
	began := time.Now()
	c.Lose(losses[n%len(losses)])
	c.Until(doorLimit, "another door opens",
		func() bool { p := c.OpenDoor(); return p != nil && p != old || c.reopened(old) })
	for _, p := range c.Peers {
		p.SetSkew(0)
	}
	return time.Since(began)
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

// TestStoppedBetweenProofAndWrite stops the leader right before a write of its
// guard, with the wall clock set back meanwhile now and then, until another
// host's door is open, and lets it go on: whatever it then writes opens
// nothing (one-door), and shows no address (one-address).
func TestStoppedBetweenProofAndWrite(t *testing.T) {
	t.Parallel()
	for i, what := range []string{"arm", "swap", "put", "arm of address", "swap of address"} {
		t.Run(what, func(t *testing.T) {
			Simulate(t, 3, uint64(310+i), func(c *Cluster) {
				c.withDoors(&PortTable{})
				for n := range 12 {
					c.awaitDoor()
					old := c.Leader()
					switch what { // only what is shut is armed
					case "arm":
						old.Kernel.Lapse()
					case "arm of address":
						old.Kernel.shown.Lapse()
					}
					stopped := stopAt(old, what)
					c.Until(doorLimit, "the leader writes", func() bool { return stopped.Load() })
					if n%2 == 1 {
						old.SetSkew(-5 * time.Hour)
					}
					c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old })
					if what == "put" || strings.HasSuffix(what, "address") {
						c.Until(doorLimit, "another host has the address", func() bool { return c.addressElsewhere(old) != nil })
					}
					old.Kernel.onWrite(nil)
					old.Resume()
					time.Sleep(3 * doorLease) // in a bubble
					old.SetSkew(0)
					c.revive()
				}
			})
		})
	}
}

// addressElsewhere returns another peer whose host has the address.
func (c *Cluster) addressElsewhere(but *Peer) *Peer {
	for _, p := range c.everyHost() {
		if p != but && p.Kernel.holds(time.Now()) {
			return p
		}
	}
	return nil
}

// stopAt pauses a peer at its next write of a kind, and says when it has.
func stopAt(p *Peer, what string) *atomic.Bool {
	var stopped atomic.Bool
	p.Kernel.onWrite(func(now string) {
		if now == what && !stopped.Load() {
			p.Pause()
			stopped.Store(true)
		}
	})
	return &stopped
}

// lateBy is how long a write is held up in TestLateWrite: as long as it may be
// without lapsing, which is the lease less the time since its last renewal, so that the
// door shuts as late as it can.
const lateBy = doorLease * 3 / 5

// TestLateWrite cuts the leader off at the moment when its proof is complete,
// holds up its write, and stops its process right after: the door stays open
// longer than an election takes, and nobody else may open meanwhile (one-door). In every second round the successor
// stops in good order before it has opened itself, and the third must wait too.
func TestLateWrite(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 320, func(c *Cluster) {
		c.withDoors(&PortTable{})
		for n := range 16 {
			c.awaitDoor()
			old := c.Leader()
			var cut atomic.Bool
			old.Kernel.onWrite(func(what string) {
				switch {
				case what == "swap" && cut.CompareAndSwap(false, true):
					c.Net.Isolate(old.Name)
					time.Sleep(lateBy) // in a bubble
				case what == "swapped" && cut.Load() && !old.paused():
					old.Pause()
				}
			})
			c.Until(doorLimit, "the leader writes", func() bool { return cut.Load() })
			next := c.AwaitLeader(successionLimit, old)
			if n%2 == 1 {
				c.must(next.Stop())
				time.Sleep(100 * time.Millisecond) // in a bubble
				c.must(next.Start())               // the third cannot lead alone
			}
			c.Until(doorLimit, "a door opens elsewhere", func() bool { p := c.OpenDoor(); return p != nil && p != old })
			old.Kernel.onWrite(nil)
			c.Net.HealAll()
			old.Resume()
			c.revive()
			time.Sleep(2 * time.Second) // in a bubble
		}
	})
}

// TestPlannedHandOver stops the leader in good order: the door is shut and the
// word of it is in the log before leadership is handed on, so nobody waits.
func TestPlannedHandOver(t *testing.T) {
	Simulate(t, 3, 330, func(c *Cluster) {
		c.withDoors(&PortTable{})
		for range 10 {
			c.awaitDoor()
			old := c.Leader()
			c.Until(doorLimit, "a peer to hand it to", func() bool { return leader.HasSuccessor(old.Core().Store, old.Name) })
			began := time.Now()
			done := make(chan error, 1)
			go func() { done <- old.Stop() }()
			c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old })
			if gap := time.Since(began); gap > 2*time.Second {
				t.Errorf("planned: another door opened after %v", gap)
			}
			c.must(<-done)
			c.must(old.Start())
		}
	})
}

// TestDoorNeedsLists opens nothing before Ironic's ports were listed once, and
// keeps the door open while Ironic is away later.
func TestDoorNeedsLists(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 340, func(c *Cluster) {
		ports := &PortTable{}
		ports.Away(true)
		c.withDoors(ports)
		c.AwaitLeader(successionLimit)
		time.Sleep(20 * time.Second) // in a bubble
		if p := c.OpenDoor(); p != nil {
			t.Fatalf("needs-lists: %s opened without a list of Ironic's ports", p.Name)
		}
		ports.Away(false)
		c.awaitDoor()
		ports.Away(true)
		time.Sleep(2 * time.Minute) // in a bubble
		if c.OpenDoor() == nil {
			t.Error("the door was shut because Ironic is away")
		}
		ports.Away(false)
		c.Lose(Losses()[0])
		c.awaitDoor()
	})
}

// TestNoQuorumNoDoor cuts the peers three ways: every door shuts, every address
// goes, and both come back with the quorum.
func TestNoQuorumNoDoor(t *testing.T) {
	Simulate(t, 3, 350, func(c *Cluster) {
		c.withDoors(&PortTable{})
		c.awaitDoor()
		for _, p := range c.Peers {
			c.Net.Isolate(p.Name)
		}
		time.Sleep(2*doorLease + maxLateAddress) // in a bubble
		if door, holder := c.OpenDoor(), c.Holder(); door != nil || holder != nil {
			t.Errorf("without a quorum the door is open at %v, the address at %v", door, holder)
		}
		c.Net.HealAll()
		c.awaitDoor()
	})
}

// TestForeignFlush flushes the rules of the host whose door is open: they are
// rebuilt, shut, leadership is handed on, and a door opens again.
func TestForeignFlush(t *testing.T) {
	Simulate(t, 3, 360, func(c *Cluster) {
		c.withDoors(&PortTable{})
		for range 5 {
			c.awaitDoor()
			old := c.Leader()
			c.Until(doorLimit, "a peer that could take leadership over", func() bool {
				return leader.HasSuccessor(old.Core().Store, old.Name)
			})
			old.Kernel.Flush()
			c.Until(100*time.Millisecond, "the rules are rebuilt", func() bool {
				_, err := old.Kernel.filter.Read(t.Context())
				return err == nil
			})
			c.Until(doorLimit, "a door opens elsewhere", func() bool { p := c.OpenDoor(); return p != nil && p != old })
		}
	})
}
