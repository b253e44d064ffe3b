package simtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// A leadership that has ended proposes nothing more, though raft still leads in its
// term and would take it: its duties have stopped, and their successors may run.
func TestEndedLeadershipProposesNothing(t *testing.T) {
	simulateStores(t, 3, 5, func(t *testing.T, b *bare) {
		first := b.elected(names(b.Peers)...)
		l := b.lead(first)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := l.Propose(ctx, fsm.Probe{}); err != nil {
			t.Fatalf("a leadership that lasts cannot propose: %v", err)
		}
		before := b.stores[first].View().Index()
		l.End()
		_, err := l.Propose(ctx, fsm.Probe{})
		if now := b.stores[first].View().Index(); !errors.Is(err, logerr.ErrNotLeader) || now != before {
			t.Errorf("ended-leadership: it proposed: %v, and the log went from %d to %d", err, before, now)
		}
		if role, _ := b.stores[first].Role(); !role.Leader {
			t.Error("raft does not lead any more, so that this test shows nothing")
		}
	})
}

// A voter that does not answer is not asked to lead: raft would take no writes until
// its message to it has timed out.
func TestTransferToASilentVoterIsRefused(t *testing.T) {
	Simulate(t, 3, 12, func(c *Cluster) {
		c.settle(0)
		lead := c.AwaitLeader(successionLimit)
		silent := c.Others(lead)[0]
		c.Net.Isolate(silent.Name)
		time.Sleep(2 * time.Second) // in a bubble
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		transferred := make(chan error, 1) // sent once
		go func() {
			transferred <- lead.Core().Store.Transfer(ctx, raftstore.Server{ID: silent.Name, Address: silent.address()})
		}()
		const begun = 50 * time.Millisecond
		time.Sleep(begun) // in a bubble
		// After an election timeout raft gives the transfer up and takes writes again.
		write, stop := context.WithTimeout(context.Background(), c.Timing.Election-2*begun)
		defer stop()
		if _, err := lead.Core().Session.Do(write, "", settings.PutSetting{Key: "k", Value: "v"}); err != nil {
			t.Errorf("silent-successor: a write beside the transfer to a silent voter: %v", err)
		}
		if err := <-transferred; err == nil { // in a bubble
			t.Error("silent-successor: leadership went to a voter that does not answer")
		}
		c.Net.HealAll()
	})
}
