package simtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// voter says whether the leader's configuration counts the peer, and as what.
func (c *Cluster) voter(name string) (known, votes bool) {
	leader := c.Leader()
	if leader == nil {
		return false, false
	}
	for _, srv := range leader.Core().Store.Servers() {
		if srv.ID == name {
			return true, srv.Voter
		}
	}
	return false, false
}

// awaitVote waits until a member has a vote, or none, and that is committed: a leader
// that is lost before takes what it alone knows with it.
func (c *Cluster) awaitVote(p *Peer, votes bool) {
	c.T.Helper()
	as := func() bool { known, v := c.voter(p.Name); return known && v == votes }
	c.Until(3*successionLimit, fmt.Sprintf("%s votes: %v", p.Name, votes), func() bool {
		if !as() {
			return false
		}
		c.commit(fsm.Probe{})
		return as()
	})
}

// A joiner is a non-voter until it has caught up, then votes; a removed member
// leaves the configuration and is told. Leaders may die at any step: the next
// one continues.
func TestMembersComeAndGoWhileLeadersDie(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 23, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(2)
		losses := Losses()
		for round := range 6 {
			extra := c.joins(fmt.Sprintf("x%d", round))
			c.Lose(losses[round%len(losses)])
			c.awaitVote(extra, true)
			c.removed(extra)
		}
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(c.Peers[0])
	})
}

// A member that was removed while it was down asks those it knew, since it hears no
// leader: no session can tell it, for a session is opened through one.
func TestRemovedWhileDownIsTold(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 31, func(c *Cluster) {
		c.settle(0)
		extra := c.joins("x")
		c.awaitVote(extra, true)
		c.must(extra.Kill())
		c.AwaitLeader(successionLimit, extra)
		c.remove(extra)
		time.Sleep(successionLimit) // in a bubble: the leader's last message to x is lost by then
		c.must(extra.Start())
		c.Until(successionLimit, "removed-is-told: x learns it", extra.told.Load)
		c.must(extra.Kill())
		c.Peers = c.Others(extra)
	})
}

// TestVoterHasNotHeardOfAPromotion: while a voter is cut off, a joiner is given a vote and
// another voter's is taken; then the leader is lost. The joiner holds all that is committed, and
// the voter that is back knows it as a non-voter, or not at all. They are two of three: the
// joiner leads.
func TestVoterHasNotHeardOfAPromotion(t *testing.T) {
	loses := map[string]func(c *Cluster, p *Peer){
		"an observer": func(c *Cluster, p *Peer) { c.exclude(p, membership.FromVoting, true); c.awaitVote(p, false) },
		"removed":     func(c *Cluster, p *Peer) { c.remove(p) },
	}
	for name, loseVote := range loses {
		for _, heard := range []bool{false, true} { // of the joiner as a non-voter
			t.Run(fmt.Sprintf("%s, heard of the joiner: %v", name, heard), func(t *testing.T) {
				Simulate(t, 3, 67, func(c *Cluster) {
					c.settle(0)
					leader := c.AwaitLeader(successionLimit)
					behind, former := c.Others(leader)[0], c.Others(leader)[1]
					if !heard {
						c.Net.Isolate(behind.Name)
					}
					joiner := c.joins("x")
					c.Until(successionLimit, "the joiner follows", func() bool { known, _ := c.voter(joiner.Name); return known })
					if heard {
						c.commit(fsm.Probe{})
						c.Until(successionLimit, "a voter hears of the joiner",
							func() bool { return len(behind.Core().Store.Servers()) == 4 })
						c.Net.Isolate(behind.Name)
					}
					c.awaitVote(joiner, true)
					loseVote(c, former)
					leader = c.Leader()
					c.must(former.Kill())
					c.must(leader.Kill())
					c.Net.HealAll()
					if heir := c.AwaitLeader(2*successionLimit, leader); heir != joiner {
						t.Errorf("%s leads, whose log is older than that of %s", heir.Name, joiner.Name)
					}
					c.commit(settings.PutSetting{Key: "led", Value: "by the joiner"})
					c.must(leader.Start())
					if name == "removed" {
						c.Peers = c.Others(former)
					} else {
						c.must(former.Start())
					}
					c.Agree(2 * successionLimit)
				})
			})
		}
	}
}

// joins starts a peer on an empty disk and admits it; it has no vote yet.
func (c *Cluster) joins(name string) *Peer {
	c.T.Helper()
	p := &Peer{Name: name, Disk: NewDisk(c.rng), c: c}
	c.Peers = append(c.Peers, p)
	c.must(p.Start())
	c.commit(membership.PutMember{Member: p.member()})
	return p
}

// remove removes a member and waits until raft's configuration does not name it, and
// that is committed.
func (c *Cluster) remove(p *Peer) {
	c.T.Helper()
	p.leaving.Store(true) // it may be told, if it still runs
	c.commit(membership.RemoveMember{ID: p.Name})
	out := func() bool { known, _ := c.voter(p.Name); return c.Leader() != nil && !known }
	c.Until(2*successionLimit, p.Name+" is out of the configuration", func() bool {
		if !out() {
			return false
		}
		c.commit(fsm.Probe{})
		return out()
	})
}

// removed takes a peer out of the cluster and waits until it knows.
func (c *Cluster) removed(p *Peer) {
	c.T.Helper()
	if c.Leader() == p {
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		defer cancel()
		c.must(p.Core().Resign(ctx)) // as leaving does
		c.AwaitLeader(successionLimit, p)
	}
	c.remove(p)
	c.Until(2*successionLimit, "removed-is-told: "+p.Name+" learns it", p.told.Load)
	c.must(p.Kill())
	c.Peers = c.Others(p)
}

// The rest must be able to go on: the log refuses, with the arithmetic.
func TestRemovalThatStrandsIsRefused(t *testing.T) {
	Simulate(t, 3, 29, func(c *Cluster) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		dead, living := c.Others(leader)[0], c.Others(leader)[1]
		c.must(dead.Kill())
		time.Sleep(2 * membership.SessionTTL) // in a bubble: the dead one's session ends
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		defer cancel()
		res, err := leader.Core().Session.Do(ctx, "", membership.RemoveMember{ID: living.Name})
		c.must(err)
		if res.Code != fsm.Refused {
			t.Errorf("removing %s was answered %v: the leader alone is not a majority of 2", living.Name, res.Code)
		}
		t.Log(res.Message)
		res, err = leader.Core().Session.Do(ctx, "", membership.RemoveMember{ID: dead.Name})
		c.must(err)
		c.must(res.Err())
		c.Peers = []*Peer{leader, living}
		c.Until(successionLimit, "the dead peer is out", func() bool { known, _ := c.voter(dead.Name); return !known })
		c.Agree(successionLimit)
	})
}
