//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// How long TestGateIsSteady looks on, and which values it tries in the place of the
// defaults.
const (
	steadyForEnv    = "TRIVET_STEADY_FOR"    // such as 30m; 20 s if it is not set
	steadyTimingEnv = "TRIVET_STEADY_TIMING" // raft.timing
	steadyLeaseEnv  = "TRIVET_STEADY_LEASE"  // firewall.lease
	steadySyncEnv   = "TRIVET_STEADY_SYNC"   // how much longer the peers wait for the disk, such as 20ms; it needs strace
)

// busyLoops is how many on each processor want to run all the time.
const busyLoops = 2

// TestGateIsSteady looks on while nothing happens but that the machine is busy: two
// loops on each processor, and a writer that waits for the disk after each write. For the
// second half of the time a follower is dead. How often a peer was elected meanwhile, and
// how often the kernel ended the PXE lease before it was renewed, says whether raft.timing
// and firewall.lease are too short.
func TestGateIsSteady(t *testing.T) {
	t.Parallel()
	lookFor, machines := 20*time.Second, 3
	if text := os.Getenv(steadyForEnv); text != "" {
		var err error
		if lookFor, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", steadyForEnv, err)
		}
		machines = siteMachines
	}
	env := []string{"TRIVET_INSPECTION_TIMEOUT=24h"} // the door is open as long as a machine waits
	for name, value := range map[string]string{"TRIVET_RAFT_TIMING": os.Getenv(steadyTimingEnv),
		"TRIVET_FIREWALL_LEASE": os.Getenv(steadyLeaseEnv)} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	kind := gateKind{machines: machines, env: env}
	if text := os.Getenv(steadySyncEnv); text != "" {
		slow := slowSync(t, text)
		kind.furnish = func(p *Peer) { p.Binary = slow }
	}
	g := kind.build(t, "nftables")
	g.waits(t)
	leader := g.settled()
	g.busy(t)
	before := g.troubles(t, leader)
	testwait.Elapse(t, lookFor/2, "look on")
	g.Followers()[0].Kill9() // from here on the other follower's answers have to do
	testwait.Elapse(t, lookFor/2, "look on while a follower is dead")
	after := g.troubles(t, g.settled())
	testenv.Figure(t, g.figure("busy elections"), float64(after.term-before.term), "", testenv.AtMost(0))
	testenv.Figure(t, g.figure("busy lapses"), float64(after.lapses-before.lapses), "", testenv.AtMost(0))
	t.Logf("in %v next to %d loops a processor (%v): term %d to %d, %d lapses", lookFor, busyLoops, env, before.term,
		after.term, after.lapses-before.lapses)
}

// slowSync makes a program that is the binary under test, whose every sync of a file
// takes so much longer. strace is not the peer's parent, so that signals reach the peer.
func slowSync(t *testing.T, text string) string {
	t.Helper()
	longer, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", steadySyncEnv, err)
	}
	path := filepath.Join(t.TempDir(), "trivet")
	script := fmt.Sprintf(
		"#!/bin/sh\nexec strace -D -f -qqq --seccomp-bpf -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_exit=%d -o /dev/null %s \"$@\"\n",
		longer.Microseconds(), os.Getenv(BinaryEnv))
	testenv.Must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// troubles are what a leader counts of its own troubles. Of another leader the lapses are
// another host's.
type troubles struct{ term, lapses uint64 }

func (g *gateLab) troubles(t *testing.T, leader *Peer) troubles {
	t.Helper()
	status, err := leader.Status()
	testenv.Must(t, err)
	filter, err := leader.filter()
	testenv.Must(t, err)
	return troubles{term: status.Term, lapses: filter.Door.Lapses}
}

// busy keeps the processors and the disk busy until the test ends.
func (g *gateLab) busy(t *testing.T) {
	t.Helper()
	for range busyLoops * runtime.NumCPU() {
		program.Run(t, g.client.Command("sh", "-c", "while :; do :; done"), syscall.SIGKILL)
	}
	f, err := os.Create(filepath.Join(g.dir, "busy"))
	testenv.Must(t, err)
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		block := make([]byte, 4096)
		for {
			select {
			case <-end:
				ended <- f.Close()
				return
			default:
			}
			if _, err := f.WriteAt(block, 0); err != nil {
				ended <- err
				return
			}
			if err := f.Sync(); err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		if err, wait := testwait.Take(5*time.Second, ended, "the writer next to it ends"); errors.Join(err, wait) != nil {
			t.Errorf("the writer next to it: %v", errors.Join(err, wait))
		}
	})
}
