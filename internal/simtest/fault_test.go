package simtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// load applies entries one after the other until stop is closed, on whoever
// leads, and returns those that were acknowledged.
func (c *trio) load(stop <-chan struct{}) <-chan []string {
	acked := make(chan []string, 1)
	go func() {
		var list []string
		for i := 0; ; i++ {
			select {
			case <-stop:
				acked <- list
				return
			case <-time.After(time.Millisecond):
			}
			entry := fmt.Sprintf("entry %d", i)
			if c.any().raft.Apply([]byte(entry), time.Second).Error() == nil {
				list = append(list, entry)
			}
		}
	}()
	return acked
}

// any returns a node that leads, or the first.
func (c *trio) any() *node {
	for _, n := range c.nodes {
		if n.raft.State() == raft.Leader {
			return n
		}
	}
	return c.nodes[0]
}

// All three lose their power at once, in the middle of writes, with torn
// writes; what was acknowledged is there after.
func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	for _, tear := range []bool{false, true} {
		t.Run(fmt.Sprintf("tear %v", tear), func(t *testing.T) {
			for seed := range uint64(10) {
				simulate(t, seed, func(c *trio) { powerCut(c, tear) })
			}
		})
	}
}

func powerCut(c *trio, tear bool) {
	c.leader()
	for _, n := range c.nodes {
		n.disk.SetTear(tear)
	}
	stop := make(chan struct{})
	acked := c.load(stop)
	time.Sleep(300 * time.Millisecond)
	for _, n := range c.nodes {
		n.port.sever()
		n.disk.Crash()
	}
	close(stop)
	for _, n := range c.nodes {
		n.kill(c.t)
	}
	want := <-acked
	if len(want) < 10 {
		c.t.Errorf("only %d entries acknowledged", len(want))
	}
	for _, n := range c.nodes {
		n.start(c.t)
	}
	lead := c.leader()
	if err := lead.raft.Barrier(time.Second).Error(); err != nil {
		c.t.Fatal(err)
	}
	have := lead.fsm.read()
	for _, entry := range want {
		if !slices.Contains(have, entry) {
			c.t.Errorf("%s was acknowledged and is lost", entry)
		}
	}
}

// Lost, late and repeated requests cost time, and nothing else.
func TestBadNetwork(t *testing.T) {
	simulate(t, 7, func(c *trio) {
		c.leader()
		c.net.SetDrop(0.05)
		c.net.SetDuplicate(0.5)
		c.net.SetDelay(0, 20*time.Millisecond)
		stop := make(chan struct{})
		acked := c.load(stop)
		time.Sleep(20 * time.Second)
		close(stop)
		want := <-acked
		c.net.SetDrop(0)
		c.net.SetDuplicate(0)
		lead := c.leader()
		if err := lead.raft.Barrier(5 * time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		have := lead.fsm.read()
		c.agree(len(have))
		seen := make(map[string]int)
		for _, entry := range have {
			if seen[entry]++; seen[entry] > 1 {
				t.Errorf("%s applied %d times", entry, seen[entry])
			}
		}
		for _, entry := range want {
			if seen[entry] == 0 {
				t.Errorf("%s was acknowledged and is lost", entry)
			}
		}
		t.Logf("%d entries acknowledged, %d applied", len(want), len(have))
	})
}

// A follower that was away while the log was cut short gets a snapshot; the
// first attempts break in the middle.
func TestSnapshotIsInstalled(t *testing.T) {
	simulate(t, 8, func(c *trio) {
		lead := c.leader()
		away := c.followers(lead)[0]
		away.kill(t)
		c.write(lead, "entry %d", 200)
		if err := lead.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		c.write(lead, "more %d", 1)
		c.net.SetLink(lead.id, away.id, Quality{Drop: 0.5})
		away.start(t)
		time.Sleep(3 * time.Second)
		c.net.SetLink(lead.id, away.id, Quality{})
		c.agree(201)
		snaps, err := away.store.Snapshots().List()
		if err != nil || len(snaps) != 1 {
			t.Errorf("the follower has %d snapshots, %v", len(snaps), err)
		}
		away.kill(t)
		away.start(t)
		c.agree(201)
	})
}

// A leader whose disk is full gives way to another.
func TestFullDiskLosesLeadership(t *testing.T) {
	simulate(t, 9, func(c *trio) {
		old := c.leader()
		old.disk.Full(true)
		if err := old.raft.Apply([]byte("no room"), time.Second).Error(); err == nil {
			t.Error("a full disk stored an entry")
		}
		c.until(20*time.Second, "another leader accepts writes", func() bool {
			n := c.any()
			return n != old && errors.Is(n.raft.Apply([]byte("room"), time.Second).Error(), nil)
		})
		old.disk.Full(false)
		c.agree(len(c.any().fsm.read()))
	})
}
