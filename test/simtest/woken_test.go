package simtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
)

// wokenLease is firewall.lease in TestWokenLeader, and wokenTiming its election
// clocks: short, so that a successor's door is open before the watchdog of the
// stopped leader, whose timers the simulation cannot stop, has ended its duties.
const wokenLease = 250 * time.Millisecond

func wokenTiming() raftstore.Timing {
	return raftstore.Timing{Heartbeat: 100 * time.Millisecond, Election: 100 * time.Millisecond,
		Lease: 50 * time.Millisecond, Commit: 5 * time.Millisecond}
}

// TestWokenLeader stops a leader that is about to arm its lease, while answers to
// its heartbeats are under way, and lets it go on when another host's door is
// open. It arms, and asks for its proof, and now those answers come: they prove
// nothing, because what they answer was sent before (one-door). The address, which
// lives longer than so short a lease, is waited for (one-address).
func TestWokenLeader(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { Simulate(t, 3, 350+seed, wokenLeader) })
	}
}

func wokenLeader(c *Cluster) {
	c.Timing = wokenTiming()
	GuardDoors(c, &PortTable{})
	gated := c.Gate
	c.Gate = func(p *Peer, gate *Gate) *app.Gate {
		o := gated(p, gate)
		o.Length = wokenLease
		return o
	}
	for _, p := range c.Peers {
		c.must(p.Kill())
		c.must(p.Start())
	}
	c.Until(doorLimit, "the leader opens", func() bool { l := c.Leader(); return l != nil && c.OpenDoor() == l })
	c.wakeArming(c.Leader())
	time.Sleep(time.Second) // in a bubble
	c.revive()
}

// wakeArming is bare.wake for a guard: it stops the old leader right before it
// arms, in the middle of a write to its log, with one voter's answer in its
// socket and the other's on the way, and continues it under another's open door.
func (c *Cluster) wakeArming(old *Peer) {
	c.T.Helper()
	others := c.Others(old)
	prompt := others[0]
	stopped, wrote := make(chan struct{}), make(chan error, 1)
	old.Kernel.onWrite(func(what string) {
		if what != "arm" || old.paused() {
			return
		}
		for _, p := range others {
			c.Net.Cut(p.Name, old.Name)
		}
		time.Sleep(wokenTiming().Heartbeat / 4) // in a bubble: every voter has a heartbeat to answer
		old.Pause()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := old.Core().Store.Propose(ctx, fsm.Header{}, settings.PutSetting{Key: "never-acknowledged", Value: "x"})
			wrote <- err
		}()
		close(stopped)
	})
	old.Kernel.Lapse()
	<-stopped
	old.Kernel.onWrite(nil)
	c.Net.Mend(prompt.Name, old.Name)
	time.Sleep(10 * time.Millisecond) // in a bubble: its answer is there
	c.Net.Cut(prompt.Name, old.Name)
	c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old })
	old.Resume()
	time.Sleep(1500 * time.Microsecond) // in a bubble
	c.Net.HealAll()
	if err := <-wrote; err == nil {
		c.T.Error("a write of a leader that had lost was acknowledged")
	}
}
