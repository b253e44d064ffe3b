package simtest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apiclient "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
	trivetlease "github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/raftstore"
)

// TestShortestLeaseSurvivesAChangeOfLeader: whichever way a leader is lost, and whenever
// in the holders' thirds of a ttl, none of them loses the shortest lease that the peers
// grant. One that is a third shorter is refused.
func TestShortestLeaseSurvivesAChangeOfLeader(t *testing.T) {
	t.Parallel()
	for name, timing := range map[string]raftstore.Timing{"fast": raftstore.Fast(), "normal": raftstore.Normal(),
		"slow": raftstore.Slow()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, 530)
				c.Timing = timing
				defer c.end()
				c.start()
				c.settle(0)
				c.holdersOutlast(40)
			})
		})
	}
}

// holdersOutlast loses leaders while others hold leases: all ways but a disk that hangs,
// which is noticed later than a leader that is silent.
func (c *Cluster) holdersOutlast(changes int) {
	c.T.Helper()
	const holders = 4
	ttl := trivetlease.ShortestTTL(c.Timing.Succession())
	if h, err := c.holder(0, ttl*2/3).Acquire(c.T.Context()); !apiclient.HasStatus(err, 400) {
		if err == nil {
			c.must(h.Release(c.T.Context()))
		}
		c.T.Fatalf("shortest-lease: one of %v was not refused: %v", ttl*2/3, err)
	}
	for _, p := range c.Peers {
		p.Disk.SetDelay(minWrite, 10*time.Millisecond)
	}
	var held []*lease.Held
	defer func() {
		for _, h := range held {
			c.must(h.Release(c.T.Context()))
		}
	}()
	for n := range holders {
		h, err := c.holder(n, ttl).Acquire(c.T.Context())
		c.must(err)
		held = append(held, h)
	}
	losses := Losses()[:5]
	for i := range changes {
		c.Until(time.Minute, "heirs", c.allFit)             // a peer whose disk hung stands aside for half a minute
		time.Sleep(time.Duration(c.rng.Int64N(int64(ttl)))) // in a bubble
		how := losses[i%len(losses)]
		c.Lose(how)
		for n, h := range held {
			if err := h.Err(); err != nil {
				c.T.Errorf("shortest-lease: change %d (%s): holder %d lost a lease of %v: %v", i, how.Name, n, ttl, err)
				return
			}
		}
	}
}

// holder is a program on a host without a peer.
func (c *Cluster) holder(n int, ttl time.Duration) *lease.Client {
	b := &beside{c: c, name: fmt.Sprintf("pod-%d", n)}
	l, err := lease.New(lease.Options{
		API: apiclient.Options{
			Servers:   []string{"http://h1:5050", "http://h2:5050", "http://h3:5050"},
			Transport: roundTripper{b, NewGate()}, Random: source{c.rng},
		},
		Name: fmt.Sprintf("lease-%d", n), Holder: b.name, TTL: ttl, Now: b.now,
	})
	c.must(err)
	return l
}

// allFit reports whether every peer would lead.
func (c *Cluster) allFit() bool {
	return !slices.ContainsFunc(c.Peers, func(p *Peer) bool { return p.Core() == nil || p.Core().Fitness.Fit() != nil })
}
