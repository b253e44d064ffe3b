package simtest

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// Promise 8: an entry of a kind that this binary does not know stops the peer
// with a sentence that says what to upgrade. It is not skipped, and what is
// committed after it is not applied.
func TestUnknownEntryStopsThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 17)
		defer c.end()
		var mu sync.Mutex
		told := make(map[string]error)
		c.Fatal = func(p *Peer, err error) {
			mu.Lock()
			defer mu.Unlock()
			told[p.Name] = err
		}
		index := c.plant([]byte{1, 77, 0xa0, 0xa0}) // format 1, kind 77
		for _, p := range c.Peers {
			c.must(p.Start())
		}
		c.Until(successionLimit, "every peer is told", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(told) == len(c.Peers)
		})
		time.Sleep(successionLimit)
		for _, p := range c.Peers {
			if at := p.Core().Store.View().Index(); at >= index {
				t.Errorf("unknown-stops: %s applied entry %d, past the one it does not know (%d)", p.Name, at, index)
			}
			t.Logf("%s: %v", p.Name, told[p.Name])
		}
	})
}

// An entry marked ignorable is passed over by all alike.
func TestIgnorableEntryIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 19)
		defer c.end()
		index := c.plant([]byte{1, 0x80 | 77, 0xa0, 0xa0})
		for _, p := range c.Peers {
			c.must(p.Start())
		}
		c.settle(0)
		c.Agree(successionLimit)
		if at := c.Peers[0].Core().Store.View().Index(); at <= index {
			t.Errorf("the peers stand at %d, before the ignorable entry %d", at, index)
		}
	})
}

// plant puts an entry that no peer of this version would propose into every
// log, as a newer leader would have.
func (c *Cluster) plant(data []byte) uint64 {
	index := c.founded().View().Index() + 1
	for _, p := range c.Peers {
		c.must(raftguard.NewLog(p.Disk.Mount(nil)).StoreLog(
			&raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}))
	}
	return index
}
