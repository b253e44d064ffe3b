package simtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// neverLed breaks the assertion if a peer has begun its duties after a token.
func (c *Cluster) neverLed(p *Peer, since uint64) {
	c.T.Helper()
	if now := p.leadToken.Load(); now > since {
		c.Oracle.broken("maintenance-never-leads: %s began its duties under token %d, in maintenance since %d", p.Name, now,
			since)
	}
}

// exclude decides something of a member.
func (c *Cluster) exclude(p *Peer, from membership.Exclusion, on bool) {
	c.T.Helper()
	c.commit(membership.Exclude{Peer: p.Name, From: from, On: on})
	c.Until(successionLimit, p.Name+" hears of it", func() bool {
		core := p.Core()
		if core == nil {
			return false
		}
		s := core.Store.View().MemberFlags(p.Name)
		return s.Maintenance == on && from == membership.FromLeading || s.Observer == on && from == membership.FromVoting
	})
}

// TestMaintenanceNeverLeads loses leaders in every way while one peer is in
// maintenance: it begins no duty, and there is a leader again each time, also
// where it holds the newest log. It survives restarts, and ends when told to.
func TestMaintenanceNeverLeads(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 41, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(4)
		idle := c.AwaitLeader(successionLimit)
		c.exclude(idle, membership.FromLeading, true) // the leader: it hands leadership on
		c.AwaitLeader(successionLimit, idle)
		since := idle.leadToken.Load()
		losses := Losses()
		for i := range 24 {
			if i%6 == 5 {
				c.must(idle.Kill())
				c.must(idle.Start())
				c.settle(0)
			}
			c.Until(time.Minute, "an heir", func() bool { // one whose disk hung stands aside for half a minute
				return !slices.ContainsFunc(c.Others(idle),
					func(p *Peer) bool { return p.Core() == nil || p.Core().Fitness.Fit() != nil })
			})
			c.Lose(losses[i%len(losses)])
			c.neverLed(idle, since)
		}
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(c.Peers[0])
		c.exclude(idle, membership.FromLeading, false)
		for _, p := range c.Others(idle) {
			if idle.Core().Runner.Token().IsZero() {
				c.exclude(p, membership.FromLeading, true)
			}
		}
		c.Until(2*successionLimit, idle.Name+" leads again when it is the only one that may",
			func() bool { return c.Leader() == idle })
	})
}

// TestNewestLogIsInMaintenance: a leader dies when the only other peer that has
// its newest entry is in maintenance. Nobody else can be elected, so raft elects
// that one, and it hands leadership on without having led.
func TestNewestLogIsInMaintenance(t *testing.T) {
	for seed := range uint64(4) {
		Simulate(t, 3, 43+seed, func(c *Cluster) {
			c.settle(0)
			leader := c.AwaitLeader(successionLimit)
			idle, heir := c.Others(leader)[0], c.Others(leader)[1]
			c.exclude(idle, membership.FromLeading, true)
			since := idle.leadToken.Load()
			c.Net.Isolate(heir.Name)
			c.commit(settings.PutSetting{Key: "newest", Value: "entry"})
			c.must(leader.Kill())
			c.Net.Heal(heir.Name)
			began := time.Now()
			if next := c.AwaitLeader(successionLimit, leader); next != heir {
				t.Errorf("maintenance-never-leads: %s leads", next.Name)
			}
			t.Logf("seed %d: %v without a leader", 43+seed, time.Since(began))
			c.neverLed(idle, since)
			if _, ok := heir.Core().Store.View().Setting("newest"); !ok {
				t.Error("nothing-lost: the newest entry is not in the new leader's state")
			}
		})
	}
}

// TestOnlyMaintenanceIsLeft: the peers that may lead are gone, a majority in
// maintenance is not. Nobody leads, until an operator says so on one of them.
func TestOnlyMaintenanceIsLeft(t *testing.T) {
	t.Parallel()
	Simulate(t, 5, 47, func(c *Cluster) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		others := c.Others(leader)
		for _, p := range others[:3] {
			c.exclude(p, membership.FromLeading, true)
		}
		c.must(others[3].Kill())
		c.must(leader.Kill())
		time.Sleep(time.Minute) // in a bubble
		for _, p := range others[:3] {
			c.neverLed(p, 0)
		}
		c.Peers = others[:3]
		others[0].Core().Fitness.Lift()
		c.Until(leaderLift, "the one that was told to leads", func() bool { return c.Leader() == others[0] })
		c.exclude(others[0], membership.FromLeading, false)
		time.Sleep(2 * time.Minute) // in a bubble: longer than an operator's word counts
		if c.Leader() != others[0] {
			t.Errorf("%s does not lead any more", others[0].Name)
		}
	})
}

// leaderLift bounds how long a peer may take to lead once it was told to: those
// beside it may have to learn that nobody takes leadership from them.
const leaderLift = time.Minute

// TestObserverIsCountedInNoMajority: a leader that only an observer follows
// proves nothing, commits nothing and steps down; with its other voter it does,
// whatever becomes of the observer.
func TestObserverIsCountedInNoMajority(t *testing.T) {
	Simulate(t, 3, 53, func(c *Cluster) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		observer, voter := c.Others(leader)[0], c.Others(leader)[1]
		c.exclude(observer, membership.FromVoting, true)
		c.awaitVote(observer, false)

		c.Net.Isolate(observer.Name)
		c.commit(settings.PutSetting{Key: "without", Value: "the observer"})
		c.Net.Heal(observer.Name)
		c.Until(successionLimit, "the observer follows", func() bool {
			_, ok := observer.Core().Store.View().Setting("without")
			return ok
		})

		leader = c.AwaitLeader(successionLimit)
		if leader == voter {
			t.Fatalf("%s leads, which was never lost sight of", voter.Name)
		}
		c.Net.Isolate(voter.Name)
		ctx, cancel := context.WithTimeout(context.Background(), c.Timing.Lease/2) // before raft itself steps down
		_, err := leader.Core().Store.Read(ctx)
		cancel()
		if err == nil {
			t.Error("observer-counts-nowhere: a leader that only an observer follows answered a read")
		}
		time.Sleep(2 * c.Timing.Heartbeat) // in a bubble
		if leader := c.Leader(); leader != nil {
			t.Errorf("observer-counts-nowhere: %s leads with the help of an observer", leader.Name)
		}
		c.Net.HealAll()
		c.AwaitLeader(successionLimit)

		c.exclude(observer, membership.FromVoting, false)
		c.awaitVote(observer, true)
		c.Lose(Losses()[0])
	})
}

// TestHolderOfTheLastVoteIsDemoted: members that are no observers any more have no vote yet
// when the leader, which has the only one, becomes an observer. It leads on until one has.
func TestHolderOfTheLastVoteIsDemoted(t *testing.T) {
	Simulate(t, 3, 61, func(c *Cluster) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		others := c.Others(leader)
		c.exclude(others[0], membership.FromVoting, true)
		c.awaitVote(others[0], false)
		c.exclude(others[0], membership.FromVoting, false) // it votes in 2 s
		c.exclude(others[1], membership.FromVoting, true)
		c.awaitVote(others[1], false)
		c.exclude(leader, membership.FromVoting, true)
		c.AwaitLeader(successionLimit, leader)
		c.awaitVote(leader, false)
		c.exclude(others[1], membership.FromVoting, false)
		c.awaitVote(others[1], true)
		c.Agree(successionLimit)
	})
}

// TestLeaderIsDemoted: it hands leadership on, and only then its vote is taken.
func TestLeaderIsDemoted(t *testing.T) {
	Simulate(t, 4, 59, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(2)
		for range 3 {
			leader := c.AwaitLeader(successionLimit)
			c.exclude(leader, membership.FromVoting, true)
			c.AwaitLeader(successionLimit, leader)
			c.awaitVote(leader, false)
			c.exclude(leader, membership.FromVoting, false)
			c.awaitVote(leader, true)
		}
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(c.Peers[0])
	})
}
