package simtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/trivet-ha/trivet/fsm"
)

// formatAt is where a snapshot has its format, behind who wrote it, in bytes.
const formatAt = 8

// newer returns a snapshot as a newer binary would have written it.
func (s *snapshot) newer() *snapshot {
	data := bytes.Clone(s.data)
	data[formatAt]++
	return &snapshot{meta: s.meta, data: data}
}

// Promise 8 of snapshots: a peer that finds one of a newer binary does not start
// on it, nor on the older one beside it, and starts again once it is upgraded.
func TestNewerSnapshotIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 61)
		defer c.end()
		c.Fatal = func(*Peer, error) {}
		c.start()
		c.settle(0)
		p := c.Others(c.AwaitLeader(successionLimit))[0]
		c.must(p.Core().Store.Snapshot(context.Background()))
		c.must(p.Kill())
		snapshots := p.Disk.platter.snapshots
		if len(snapshots) != 2 {
			t.Fatalf("%d snapshots, want the founder's and a newer one", len(snapshots))
		}
		ours := snapshots[0]
		snapshots[0] = ours.newer()
		if err := p.Start(); !errors.Is(err, fsm.UnknownEntry) || !strings.Contains(err.Error(), "upgrade trivet") {
			t.Errorf("newer-snapshot-stops: %v", err)
			c.must(p.Kill())
		}
		p.Disk.Crash()
		p.Disk.platter.snapshots[0] = ours // as the newer binary reads it
		c.must(p.Start())
		c.settle(0)
		c.Agree(successionLimit)
	})
}

// A peer that is sent a snapshot of a newer binary while it runs stops, too.
func TestNewerSnapshotFromTheLeaderStopsThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 67)
		defer c.end()
		var mu sync.Mutex
		told := make(map[string]error)
		c.Fatal = func(p *Peer, err error) {
			mu.Lock()
			defer mu.Unlock()
			told[p.Name] = err
		}
		c.start()
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		p := c.Others(leader)[0]
		c.must(p.Kill())
		p.Disk.platter = newContent() // so that the leader sends all it has
		c.RolledBack = func(*Peer, error) {}
		leader.Disk.set(func() {
			kept := leader.Disk.mounted.content
			for i, s := range kept.snapshots {
				kept.snapshots[i] = s.newer()
			}
		})
		c.must(p.Start())
		c.Until(successionLimit, "it is told", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return errors.Is(told[p.Name], fsm.UnknownEntry)
		})
		if at := p.Core().Store.View().Index(); at != 0 {
			t.Errorf("newer-snapshot-stops: %s stands at %d", p.Name, at)
		}
		if len(told) != 1 {
			t.Errorf("newer-snapshot-stops: %v", told)
		}
	})
}
