//go:build e2e

package simtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// wedgeEnv runs what TestSecondTransferWedgesRaft expects to end in a panic.
const wedgeEnv = "TRIVET_SIM_WEDGE"

// Of two transfers to a follower whose disk hangs, raft 1.8 blocks in the second one
// for good when the leader is lost meanwhile, and takes no writes when that server
// leads again. It runs in a process of its own: a bubble whose goroutines block for
// good ends it. If this test fails, raft has been mended, and raftguard.Transfers may go.
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
	for _, want := range []string{"a write under the next leadership: " + raft.ErrLeadershipTransferInProgress.Error(),
		"blocked goroutines remain"} {
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
