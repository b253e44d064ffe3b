package simtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/transfer"
)

// wedgeEnv runs what TestSecondTransferWedgesRaft expects to end in a panic.
const wedgeEnv = "TRIVET_SIM_WEDGE"

// Of two transfers to a follower whose disk hangs, raft 1.8 blocks in the second one
// for good when the leader is lost meanwhile, and takes no writes when that server
// leads again. It runs in a process of its own: a bubble whose goroutines block for
// good ends it. If this test fails, raft has been mended, and package transfer may go.
func TestSecondTransferWedgesRaft(t *testing.T) {
	if os.Getenv(wedgeEnv) != "" {
		for seed := range uint64(20) { // raft chooses at random whether it takes the request before it ends
			simulate(t, seed, wedge)
		}
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSecondTransferWedgesRaft$")
	cmd.Env = append(os.Environ(), wedgeEnv+"=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"a write under the next leadership: " + raft.ErrLeadershipTransferInProgress.Error(), "blocked goroutines remain"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("raft alone ended with %v, without %q:\n%.2000s", err, want, out)
		}
	}
}

// wedge asks a leader twice to hand over to a follower that stores nothing, loses it,
// and has it lead again.
func wedge(t *testing.T, c *trio) {
	old := c.leader()
	stuck := c.followers(old)[0]
	stuck.disk.Hang()
	c.write(old, "before %d", 3)
	for range 2 {
		if err := old.raft.LeadershipTransferToServer(raft.ServerID(stuck.id), stuck.addr()).Error(); err == nil {
			t.Error("a follower that stores nothing became the leader")
		}
		time.Sleep(10 * time.Millisecond) // in a bubble: raft answers before it has cleared its mark
	}
	c.net.Isolate(old.id)
	c.until(5*time.Second, "the leader steps down", func() bool { return old.raft.State() != raft.Leader })
	stuck.disk.Thaw()
	c.leader(old)
	c.net.HealAll()
	c.until(20*time.Second, "the first leader leads again", func() bool {
		if lead := c.any(); lead != old && lead.raft.State() == raft.Leader {
			_ = lead.raft.LeadershipTransferToServer(raft.ServerID(old.id), old.addr()).Error() // tried until it works
		}
		return old.raft.State() == raft.Leader
	})
	if err := old.raft.Apply([]byte("after"), time.Second).Error(); err != nil {
		fmt.Println("a write under the next leadership:", err)
	}
}

// A leader asks a follower whose disk hangs once; it can write when it leads again.
func TestTransferToAStuckVoterIsTriedOnce(t *testing.T) {
	Simulate(t, 3, 12, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(2)
		old := c.AwaitLeader(successionLimit)
		stuck := c.Others(old)[0]
		to := raftstore.Server{ID: stuck.Name, Address: stuck.address()}
		stuck.Disk.Hang()
		time.Sleep(time.Second) // in a bubble: entries wait for the disk
		for n, want := range []error{nil, transfer.ErrStuck} {
			ctx, cancel := context.WithTimeout(context.Background(), 2*successionLimit)
			err := old.Core().Store.Transfer(ctx, to)
			cancel()
			if err == nil || errors.Is(err, transfer.ErrStuck) != (want != nil) {
				t.Errorf("transfer %d to a voter whose disk hangs: %v", n+1, err)
			}
		}
		c.Net.Isolate(old.Name)
		c.Until(successionLimit, "the leadership ends", func() bool { return old.Core().Runner.Token().IsZero() })
		stuck.Disk.Thaw()
		c.AwaitLeader(successionLimit, old)
		c.Net.HealAll()
		c.Until(2*time.Minute, "the first leader leads again", func() bool {
			if lead := c.Leader(); lead != nil && lead != old {
				ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
				defer cancel()
				_ = lead.Core().Store.Transfer(ctx, raftstore.Server{ID: old.Name, Address: old.address()}) // tried until it works
			}
			return c.Leader() == old
		})
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(old)
	})
}
