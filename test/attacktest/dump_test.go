//go:build e2e

package attacktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
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
func dumped(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := testwait.Receive(t, ended, "the process ends")
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGABRT {
		t.Fatalf("it ended by %v", err)
	}
	return status.CoreDump()
}

// TestMemoryIsInNoCoreDump kills a peer as a fault in Go's runtime would, with nothing in the
// way of a core dump but itself.
func TestMemoryIsInNoCoreDump(t *testing.T) {
	unlimited(t)
	other := exec.Command(os.Args[0])
	other.Env, other.Dir = append(os.Environ(), asDump+"=1", "GOTRACEBACK=crash"), t.TempDir()
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if !dumped(t, other) {
		testenv.Missing(t, "this host writes no core dumps: /proc/sys/kernel/core_pattern")
	}
	p := newTrivetProcess(t, "name: h1\napi:\n  auth_strategy: noauth\n")
	p.run(0, "init", "-q")
	p.serve("GOTRACEBACK=crash")
	cmd := p.daemon
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// What it starts has this limit: with 0 the kernel would still start a program of core_pattern.
	if !strings.Contains(string(limits), "Max core file size        1                    1 ") {
		t.Errorf("core-dump: the limit for programs that the peer starts:\n%s", limits)
	}
	p.daemon = nil
	if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	if dumped(t, cmd) {
		t.Error("core-dump: the memory of a peer was written down")
	}
}
