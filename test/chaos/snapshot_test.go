//go:build e2e

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	// snapshotKeys values of valueBytes are nearly all that the log may hold.
	snapshotKeys = 240
	valueBytes   = 64 << 10
	// snapshotRounds of them are more than what makes a peer take a snapshot (64 MiB), and
	// more entries than it keeps after one.
	snapshotRounds = 12
	// snapshotLeast is what a snapshot of 15 MB takes at 1 MB/s at least.
	snapshotLeast = 10 * time.Second
	// quietCommits is for how long commits are measured before.
	quietCommits = 10 * time.Second
)

// TestSlowSnapshot has a follower that comes back read a snapshot at 1 MB/s: nobody is
// elected meanwhile, and commits take no more than half as long again.
func TestSlowSnapshot(t *testing.T) {
	testenv.NeedRoot(t, "ip", "tc")
	buildTrivet(t)
	c := newCluster(t, site{machines: 4, roomy: true})
	leader := c.WaitLeader()
	slow := c.Followers()[0]
	slow.Kill9()
	c.fillState(leader)
	before := c.commits(leader, func(began time.Time) bool { return time.Since(began) >= quietCommits })
	status, err := leader.Status()
	if err != nil {
		t.Fatal(err)
	}
	slow.Host.Shape(labtest.Peers, "tbf", "rate", "8mbit", "burst", "64kb", "latency", "400ms")
	slow.Spawn()
	var took time.Duration
	during := c.commits(leader, func(began time.Time) bool {
		s, err := slow.Status()
		took = time.Since(began)
		return err == nil && s.Index >= status.Index || took > settleLimit
	})
	after, err := leader.Status()
	switch {
	case err != nil:
		t.Fatal(err)
	case took > settleLimit:
		t.Errorf("the follower does not have the state within %v", settleLimit)
	case took < snapshotLeast:
		t.Errorf("the follower had the state after %v: it read no snapshot at 1 MB/s", took)
	case after.Term != status.Term:
		t.Errorf("a leader was elected while a follower read its snapshot: term %d after %d", after.Term, status.Term)
	}
	t.Logf("it took %v; %d commits before, %d meanwhile", took, len(before), len(during))
	testenv.Count(t, "soak.slow_snapshot_s", took.Seconds())
	for _, share := range []float64{0.5, 0.99, 1} {
		quiet, busy := percentile(before, share), percentile(during, share)
		name := fmt.Sprintf("soak.slow_snapshot_ratio_p%.0f", 100*share)
		t.Logf("%s: %.2f ms before, %.2f ms meanwhile", name, quiet, busy)
		testenv.Count(t, name, busy/quiet)
		testenv.Figure(t, "chaos.slow_snapshot_ratio_p"+fmt.Sprint(100*share), busy/quiet, "x", testenv.AtMost(1.5))
	}
}

// fillState writes so much that peers take a snapshot of it and forget the entries.
func (c *cluster) fillState(leader *labtest.Peer) {
	c.t.Helper()
	err := httpapi.Parallel(snapshotKeys, 8, func(k int) error {
		rng := rand.New(rand.NewPCG(uint64(k), 6))
		data, version := make([]byte, valueBytes), ""
		for range snapshotRounds {
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			header := map[string]string{"If-None-Match": "*"}
			if version != "" {
				header = map[string]string{"If-Match": version}
			}
			reply, err := c.ask(rng, leader, request{method: http.MethodPut, path: fmt.Sprintf("/v1/kv/fill-%d", k),
				header: header, body: bytes.Clone(data)})
			if err != nil || reply.Status != http.StatusOK {
				return fmt.Errorf("fill the state: %d %.200s: %w", reply.Status, reply.Body, err)
			}
			version = reply.Header.Get("ETag")
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// commits writes through the leader, one after the other, until done, and returns what
// each took, in ms, sorted.
func (c *cluster) commits(leader *labtest.Peer, done func(began time.Time) bool) (took []float64) {
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	began, next := time.Now(), time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		at := time.Now()
		if err := leader.Put("chaos.commit", fmt.Sprint(n)); err != nil {
			c.t.Errorf("write while a follower reads a snapshot: %v", err)
		}
		took = append(took, float64(time.Since(at).Microseconds())/1000)
		if time.Now().After(next) {
			if next = time.Now().Add(100 * time.Millisecond); done(began) {
				break
			}
		}
		testwait.Rest(ctx, 5*time.Millisecond)
	}
	slices.Sort(took)
	return took
}
