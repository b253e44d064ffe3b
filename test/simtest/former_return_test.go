package simtest

import (
	"testing"
	"time"
)

// TestOldMajorityReturns starts the old peers again, as a power cut does, while the
// founder that has heard them as stopped is down: they elect a leader, which opens.
// In half of the runs they have been admitted again before, and died before the
// answer was on their disks. The founder comes back and cannot reach one of them or
// both: it must open nothing before it has heard each of them once more (one-door,
// one-address).
func TestOldMajorityReturns(t *testing.T) {
	t.Parallel()
	for n := range foundings(t) {
		Simulate(t, 3, uint64(9300+n), func(c *Cluster) {
			c.withDoors(&PortTable{})
			c.awaitDoor()
			founder := c.Peers[n%3]
			others := c.Others(founder)
			for _, p := range c.Peers {
				c.must(p.Stop()) // in order: the log says of both that they are shut
			}
			c.Found(founder)
			c.must(founder.Start())
			c.Until(time.Minute, "all former members are heard", func() bool {
				core := founder.Core()
				return !core.Runner.Token().IsZero() && core.Store.View().AwaitedFormers() == ""
			})
			if n/3%2 == 1 {
				for _, p := range others {
					c.must(c.readmit(p, p.Name+"-again", founder))
				}
			}
			time.Sleep(time.Duration(c.rng.Int64N(int64(30 * time.Second)))) // in a bubble: it may open, or not yet
			c.must(founder.Kill())
			// An old majority knows nothing of the founder: no wait of its own covers
			// what the founder's kernel still holds.
			c.Until(doorLimit, "the founder's kernel lets go", func() bool { return c.OpenDoor() == nil && c.Holder() == nil })
			for _, p := range others {
				c.must(p.Start())
			}
			c.Until(doorLimit, "the old majority opens", func() bool {
				p := c.OpenDoor()
				return p != nil && p != founder && c.Holder() == p
			})
			how := cuts()[n/6%len(cuts())]
			how.strike(c, founder, others)
			c.T.Logf("return %d: founder %s, %s", n, founder.Name, how.name)
			c.must(founder.Start())
			c.Until(successionLimit, "the founder leads", func() bool { return !founder.Core().Runner.Token().IsZero() })
			time.Sleep(2 * doorLimit) // in a bubble: the oracle looks at every change of a door
			c.Net.Heal(founder.Name)
			c.Until(time.Minute, "all former members are heard again",
				func() bool { return founder.Core().Store.View().AwaitedFormers() == "" })
			c.Until(doorLimit, "the founder opens", func() bool { return c.OpenDoor() == founder && c.Holder() == founder })
		})
	}
}

// cut is what keeps the founder from the hosts of former members.
type cut struct {
	name   string
	strike func(c *Cluster, founder *Peer, others []*Peer)
}

func cuts() []cut {
	return []cut{
		{"which is isolated", func(c *Cluster, founder *Peer, _ []*Peer) { c.Net.Isolate(founder.Name) }},
		{"which reaches both", func(*Cluster, *Peer, []*Peer) {}},
		{"which does not reach the old leader", func(c *Cluster, founder *Peer, _ []*Peer) {
			c.Net.CutBoth(founder.Name, c.OpenDoor().Name)
		}},
		{"which both hear and which hears neither", func(c *Cluster, founder *Peer, others []*Peer) {
			for _, p := range others {
				c.Net.Cut(p.Name, founder.Name)
			}
		}},
	}
}
