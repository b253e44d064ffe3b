package simtest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestContact strikes one peer after the other, leaders and followers, by killing,
// stopping and cutting it off, and demands of every survivor that it counts the
// victim as silent, and nobody else, within two seconds, and as live within two
// seconds of its return.
func TestContact(t *testing.T) {
	t.Parallel()
	const trials = 30
	for _, how := range []struct {
		name         string
		strike, undo func(*Cluster, *Peer) error
	}{
		{"killed", func(_ *Cluster, p *Peer) error { return p.Kill() }, func(_ *Cluster, p *Peer) error { return p.Start() }},
		{"stopped", func(_ *Cluster, p *Peer) error { p.Pause(); return nil },
			func(_ *Cluster, p *Peer) error { p.Resume(); return nil }},
		{"cut off", func(c *Cluster, p *Peer) error { c.Net.Isolate(p.Name); return nil },
			func(c *Cluster, p *Peer) error { c.Net.Heal(p.Name); return nil }},
	} {
		t.Run(how.name, func(t *testing.T) {
			probing(t, func(c *Cluster) {
				var named, returned []time.Duration
				for n := range trials {
					c.awaitContact(10*time.Second, "every peer hears every other", c.Peers, c.Peers, true)
					leader := c.AwaitLeader(successionLimit)
					victim := leader
					if n%3 > 0 {
						victim = c.Others(leader)[n%2]
					}
					survivors := c.Others(victim)
					struck := time.Now()
					c.must(how.strike(c, victim))
					c.awaitContact(contactBound, victim.Name+" counts as silent", survivors, []*Peer{victim}, false)
					named = append(named, time.Since(struck))
					time.Sleep(c.Net.between(0, 20*time.Second)) // in a bubble
					if how.name == "stopped" && victim == leader {
						// The model stops what a peer sends and writes, and not the loop that
						// notices a stop: a leader that goes on before the election would
						// report what it missed. cluster's TestStoppedLeaderReportsNoSilence.
						c.AwaitLeader(successionLimit, victim)
					}
					back := time.Now()
					c.must(how.undo(c, victim))
					c.awaitContact(contactBound, victim.Name+" counts as live", survivors, []*Peer{victim}, true)
					returned = append(returned, time.Since(back))
				}
				t.Logf("%d trials, %s: named within %v, at the median %v; its return said within %v, at the median %v", trials,
					how.name,
					slices.Max(named), median(named), slices.Max(returned), median(returned))
			})
		})
	}
}

// contactBound is within what every survivor must have noticed.
const contactBound = 2 * time.Second

// probing runs f with three peers that probe each other.
func probing(t *testing.T, f func(c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 19)
		c.Probes = true
		defer c.end()
		c.start()
		f(c)
	})
}

// awaitContact waits until each of from hears each of to, or not, and demands
// meanwhile that the survivors hear each other.
func (c *Cluster) awaitContact(limit time.Duration, what string, from, to []*Peer, live bool) {
	c.T.Helper()
	c.Until(limit, what, func() bool {
		for _, p := range from {
			h := p.Core().Contacts.Hearing()
			if h.Age > 0 {
				c.T.Errorf("%s says that its answer is %v old", p.Name, h.Age)
			}
			for _, other := range to {
				if h.Of(other.Name).Live != live {
					return false
				}
			}
			for _, other := range from {
				if len(from) == 2 && !h.Of(other.Name).Live {
					c.T.Errorf("%s, as %s hears, counts %s as silent for %v; it was not struck", p.Name, h.By, other.Name,
						h.Of(other.Name).Silent)
				}
			}
		}
		return true
	})
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
