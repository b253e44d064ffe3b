package simtest

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// A voter that has deleted entries of a lost leadership and cannot store those of
// the next one in their place, its disk being full, ends with 75: raft would take
// nothing any more, also when there is space. It is whole again after a start.
func TestFailedWriteAfterADeletionEndsTheProcess(t *testing.T) {
	Simulate(t, 3, 41, func(c *Cluster) {
		c.settle(0)
		old := c.AwaitLeader(successionLimit)
		c.Net.Isolate(old.Name)
		var writes sync.WaitGroup
		for range 5 { // they get to its disk alone, and their outcome stays unknown
			writes.Go(func() { _, _ = c.put(old, "lost") })
		}
		writes.Wait()
		next := c.AwaitLeader(successionLimit, old)
		_, err := c.put(next, "kept")
		c.must(err)
		old.Disk.Fail(OpLog, syscall.ENOSPC)
		c.Net.HealAll()
		c.Until(time.Minute, "the voter ends", old.Exited)
		if exits := strings.Join(c.Oracle.Exits(), "; "); !strings.Contains(exits,
			old.Name+" exited with 75: store entries in the place of those deleted") {
			t.Errorf("last-index-lost: %s", exits)
		}
		c.must(old.Kill())
		old.Disk.Fail(OpLog, nil)
		c.must(old.Start())
		c.Until(time.Minute, "it has what the others have", func() bool {
			_, ok := old.Core().Store.View().Setting("kept")
			return ok
		})
		c.Agree(successionLimit)
	})
}

// put writes a setting through a peer.
func (c *Cluster) put(p *Peer, key string) (fsm.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
	defer cancel()
	return p.Core().Store.Propose(ctx, fsm.Header{}, settings.PutSetting{Key: key, Value: "1"})
}
