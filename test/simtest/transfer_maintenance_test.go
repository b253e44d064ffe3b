package simtest

import (
	"context"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// TestLeadershipHandedOn gives leadership to another peer again and again, without
// stopping anything: the next door opens at once. One that nobody takes leaves
// the peer its leadership, by another token, and its door.
func TestLeadershipHandedOn(t *testing.T) {
	const soon = time.Second
	Simulate(t, 3, 331, func(c *Cluster) {
		c.withDoors(&PortTable{})
		ctx := context.Background()
		for range 10 {
			c.settle(0) // so that the others have sessions: they are asked
			c.awaitDoor()
			old := c.Leader()
			core := old.Core()
			began := time.Now()
			c.must(core.HandOn(ctx, raftstore.Server{}))
			c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old })
			if gap := time.Since(began); gap > soon {
				c.Oracle.broken("handed-on: another door opened after %v, want at most %v", gap, soon)
			}
		}
		c.awaitDoor()
		old := c.Leader()
		token := old.Core().Runner.Token()
		for _, p := range c.Others(old) {
			p.Core().Store.Refuse(true)
		}
		if err := old.Core().HandOn(ctx, raftstore.Server{}); err == nil {
			t.Error("handed on: no voter takes leadership, and there is no error")
		}
		for _, p := range c.Others(old) {
			p.Core().Store.Refuse(false)
		}
		c.Until(doorLimit, "the door that was shut in vain opens again", func() bool {
			p := c.OpenDoor()
			return p != nil && p.Core().Runner.Token() > token
		})
		c.awaitDoor()
	})
}

// TestMaintenanceHandsTheDoorOn puts whoever leads into maintenance, or takes its
// vote: the next door opens at once, since the log says that the last one is shut.
func TestMaintenanceHandsTheDoorOn(t *testing.T) {
	t.Parallel()
	const soon = 500 * time.Millisecond
	Simulate(t, 4, 337, func(c *Cluster) {
		c.withDoors(&PortTable{})
		for i := range 8 {
			from := []membership.Exclusion{membership.FromLeading, membership.FromVoting}[i%2]
			c.settle(0)
			c.awaitDoor()
			old := c.Leader()
			began := time.Now()
			c.commit(membership.Exclude{Peer: old.Name, From: from, On: true})
			c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old })
			took := time.Since(began)
			t.Logf("from %v: another door opened after %v", from, took)
			if took > soon {
				c.Oracle.broken("maintenance-hands-on: another door opened after %v, want at most %v", took, soon)
			}
			c.commit(membership.Exclude{Peer: old.Name, From: from, On: false})
			c.Until(3*successionLimit, "it may lead again", func() bool {
				_, votes := c.voter(old.Name)
				return votes && old.Core().Fitness.Barred() == nil
			})
		}
	})
}
