package simtest

import (
	"fmt"
	"testing"
	"time"
)

// foundings is how many clusters TestFoundedAnew founds anew.
func foundings(t *testing.T) int {
	usual := 80
	if testing.Short() {
		usual = 20
	}
	return countFrom(t, "TRIVET_SIM_FOUNDINGS", usual)
}

// left is what became of a peer when its cluster is founded again on another host:
// how it is struck before, and how it is found after.
type left struct {
	name   string
	strike func(c *Cluster, p, founder *Peer)
	mend   func(c *Cluster, p *Peer)
}

func leftBehind() []left {
	still := func(*Cluster, *Peer) {}
	heal := func(c *Cluster, p *Peer) { c.Net.Heal(p.Name) }
	return []left{
		{"runs", func(*Cluster, *Peer, *Peer) {}, still},
		{"is cut off from the founder", func(c *Cluster, p, founder *Peer) { c.Net.CutBoth(p.Name, founder.Name) }, heal},
		{"hears the founder and is not heard", func(c *Cluster, p, founder *Peer) { c.Net.Cut(p.Name, founder.Name) }, heal},
		{"is heard and hears nothing of the founder", func(c *Cluster, p, founder *Peer) { c.Net.Cut(founder.Name, p.Name) },
			heal},
		{"is isolated", func(c *Cluster, p, _ *Peer) { c.Net.Isolate(p.Name) }, heal},
		{"is paused", func(_ *Cluster, p, _ *Peer) { p.Pause() }, func(_ *Cluster, p *Peer) {
			if p.Core() != nil {
				p.Resume()
			}
		}},
		{"was killed right before", func(c *Cluster, p, _ *Peer) { c.must(p.Kill()) }, still},
		{"was stopped", func(c *Cluster, p, _ *Peer) { c.must(p.Stop()) }, still},
	}
}

// TestFoundedAnew founds a cluster anew on one host while the others run, are cut
// off, paused or dead: at no instant two doors are open or two hosts have the
// address (one-door, one-address), the founder opens nothing while a former member
// is not heard, opens once all are, and all join again.
func TestFoundedAnew(t *testing.T) {
	t.Parallel()
	states := leftBehind()
	for n := range foundings(t) {
		Simulate(t, 3, uint64(9100+n), func(c *Cluster) {
			c.withDoors(&PortTable{})
			c.awaitDoor()
			founder := c.Peers[n%3]
			if n%2 == 0 {
				founder = c.Others(c.Leader())[n/2%2]
			}
			others := c.Others(founder)
			how := []left{states[n%len(states)], states[n/len(states)%len(states)]}
			c.T.Logf("founding %d on %s: %s %s, %s %s", n, founder.Name, others[0].Name, how[0].name, others[1].Name,
				how[1].name)
			c.must(founder.Kill())
			for i, p := range others {
				how[i].strike(c, p, founder)
			}
			time.Sleep(time.Duration(c.rng.Int64N(int64(5 * time.Second)))) // in a bubble: they may elect, and open
			c.Found(founder)
			c.must(founder.Start())
			c.Until(successionLimit, "the founder leads", func() bool { return !founder.Core().Runner.Token().IsZero() })
			c.watchFounder(founder, 20*time.Second)
			for i, p := range others {
				how[i].mend(c, p)
			}
			c.Until(time.Minute, "all former members are heard",
				func() bool { return founder.Core().Store.View().AwaitedFormers() == "" })
			c.Until(doorLimit, "the founder opens", func() bool { return c.OpenDoor() == founder && c.Holder() == founder })
			for _, p := range others {
				c.must(p.Kill()) // one that was cut off from the founder alone may not have been told
				c.JoinAnew(p, p.Name+"-again", c.AwaitLeader(successionLimit))
			}
			c.Until(time.Minute, "all vote", func() bool {
				return len(founder.Core().Store.View().VoterSessions()) == 3 &&
					len(founder.Core().Store.View().FormerMembers()) == 0
			})
			c.Agree(successionLimit)
		})
	}
}

// watchFounder looks for a while that the founder opens nothing while a former
// member is not heard.
func (c *Cluster) watchFounder(founder *Peer, span time.Duration) {
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(pollEvery) {
		names, now := founder.Core().Store.View().AwaitedFormers(), time.Now()
		if names != "" && (founder.Kernel.door(now) || founder.Kernel.holds(now)) {
			c.Oracle.broken("founder-waits: %s has a door or the address while %s was not heard", founder.Name, names)
			return
		}
	}
}

// TestLostMemberIsNotWaitedFor names one peer lost, which is: the founder opens
// without it, and it does not come back without a token.
func TestLostMemberIsNotWaitedFor(t *testing.T) {
	Simulate(t, 3, 9001, func(c *Cluster) {
		c.withDoors(&PortTable{})
		c.awaitDoor()
		founder, stopped, lost := c.Peers[0], c.Peers[1], c.Peers[2]
		for _, p := range c.Peers {
			c.must(p.Kill())
		}
		c.Net.Isolate(lost.Name) // it answers nobody, not even with a refusal
		c.Found(founder, lost.Name)
		c.must(founder.Start())
		c.Until(doorLimit+10*time.Second, "the founder opens",
			func() bool { return c.OpenDoor() == founder && c.Holder() == founder })
		if err := c.readmit(lost, "lost-again", founder); err == nil {
			c.Oracle.broken("lost-rejoins: %s was named lost and is a member again", lost.Name)
		}
		c.JoinAnew(stopped, "h2-again", founder)
		c.Until(time.Minute, "it votes", func() bool { return len(founder.Core().Store.View().VoterSessions()) == 2 })
		if members := fmt.Sprint(len(founder.Core().Store.View().Members())); members != "2" {
			t.Errorf("%s members", members)
		}
	})
}
