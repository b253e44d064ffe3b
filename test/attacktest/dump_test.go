//go:build e2e

package attacktest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// asDump in the environment makes this program one that kills itself with SIGABRT.
const asDump = "ATTACKTEST_DUMP"

func beDumped() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGABRT) // of itself it may
	select {}                                           // until that has come
}

// unlimited lets what this process starts write core dumps of any size.
func unlimited(t *testing.T) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &was); err != nil {
		t.Fatal(err)
	}
	all := syscall.Rlimit{Cur: 1 << 40, Max: ^uint64(0)}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &all); err != nil {
		testenv.Missing(t, "the limit of core dumps cannot be raised: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: was.Cur, Max: all.Max}); err != nil {
			t.Error(err)
		}
	})
}

// dumped waits for the end of a process by a signal, and reports whether the kernel wrote its
// memory down.
func dumped(t *testing.T, p *program.Process) bool {
	t.Helper()
	if err := p.Wait(limit); err != nil || p.Status.Signal() != syscall.SIGABRT {
		t.Fatalf("it ended by %v, exit code %d (%v)", p.Status.Signal(), p.Code, err)
	}
	return p.Status.CoreDump()
}

// TestMemoryIsInNoCoreDump kills a peer as a fault in Go's runtime would, with nothing in the
// way of a core dump but itself.
func TestMemoryIsInNoCoreDump(t *testing.T) {
	unlimited(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Dir = append(os.Environ(), asDump+"=1", "GOTRACEBACK=crash"), t.TempDir()
	other, err := program.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if !dumped(t, other) {
		testenv.Missing(t, "this host writes no core dumps: /proc/sys/kernel/core_pattern")
	}
	p := newTrivetProcess(t, "name: h1\napi:\n  auth_strategy: noauth\n")
	p.run(0, "init", "-q")
	p.serve("GOTRACEBACK=crash")
	daemon := p.daemon
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", daemon.PID()))
	if err != nil {
		t.Fatal(err)
	}
	// What it starts has this limit: with 0 the kernel would still start a program of core_pattern.
	if !strings.Contains(string(limits), "Max core file size        1                    1 ") {
		t.Errorf("core-dump: the limit for programs that the peer starts:\n%s", limits)
	}
	p.daemon = nil
	if err := daemon.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	if dumped(t, daemon) {
		t.Error("core-dump: the memory of a peer was written down")
	}
}
