//go:build e2e

package simtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// shrinkTries bounds how many smaller schedules are tried, and shrinkRun one of them.
const (
	shrinkTries = 60
	shrinkRun   = time.Minute
)

// TestSmallerSchedule looks for a smaller schedule that fails as the one that the
// environment names, each in a process of its own, and says how to replay it.
func TestSmallerSchedule(t *testing.T) {
	peers, seed, s := chosenSchedule(t)
	if len(s) == 0 {
		t.Skipf("%s names no schedule", scheduleEnv)
	}
	fails := func(s Schedule) bool {
		ctx, cancel := context.WithTimeout(t.Context(), shrinkRun)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOverlappingFaults$", "-test.count=1")
		cmd.Env = append(os.Environ(), replay(peers, seed, s)...)
		return cmd.Run() != nil
	}
	if !fails(s) {
		t.Fatalf("these %d faults did not fail: elections differ from run to run, try again", len(s))
	}
	t.Log(wayToReplay(peers, seed, Shrink(s, shrinkTries, fails)))
}
