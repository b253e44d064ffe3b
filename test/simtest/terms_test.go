package simtest

import (
	"strconv"
	"testing"
	"time"
)

// A heartbeat and a vote that meet at a slow disk leave the higher term. raft alone
// does not: see raftguard.TermGuard.
func TestTermsNeverFallOnSlowDisks(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			Simulate(t, 3, 900+seed, func(c *Cluster) {
				for _, p := range c.Peers {
					p.Disk.SetDelay(20*time.Millisecond, 300*time.Millisecond)
				}
				defer func() {
					for _, p := range c.Peers {
						p.Disk.SetDelay(minWrite, maxWrite)
					}
				}()
				seen, rises := make(map[string]uint64), 0
				next := time.Now()
				for end := next.Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
					for _, p := range c.Peers {
						core := p.Core()
						if core == nil {
							continue
						}
						term := core.Store.Stats().Term
						if term < seen[p.Name] {
							c.T.Fatalf("term-never-falls: that of %s fell from %d to %d", p.Name, seen[p.Name], term)
						}
						if term > seen[p.Name] {
							rises++
						}
						seen[p.Name] = term
					}
					if time.Now().After(next) {
						next = time.Now().Add(time.Duration(100+c.rng.IntN(1500)) * time.Millisecond)
						c.Net.HealAll()
						if n := c.rng.IntN(4); n < len(c.Peers) {
							c.Net.Isolate(c.Peers[n].Name)
						}
					}
				}
				c.Net.HealAll()
				c.T.Logf("%d rises of a term", rises)
			})
		})
	}
}
