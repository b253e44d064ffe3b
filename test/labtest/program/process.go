//go:build e2e

package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Process is one run of a program. It dies with the test's process.
type Process struct {
	cmd    *exec.Cmd
	Done   chan struct{} // closed when the others are set
	Code   int           // as a shell would give it; -1: killed by a signal
	Status syscall.WaitStatus
}

// Start starts cmd and watches for its end.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, Done: make(chan struct{})}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait() // the state below says how it ended
		p.Code = cmd.ProcessState.ExitCode()
		p.Status, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
	}()
	return p, nil
}

// StartLogged is Start of what writes to the end of a file. It ends the test if that fails.
func StartLogged(t testing.TB, cmd *exec.Cmd, path string) *Process {
	t.Helper()
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testenv.Must(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := Start(cmd)
	if err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	return p
}

// endLimit is what a process may take to heed the signal that ends it.
const endLimit = 10 * time.Second

// Run starts cmd for the rest of the test, which ends it by a signal.
func Run(t testing.TB, cmd *exec.Cmd, end syscall.Signal) *Process {
	t.Helper()
	p, err := Start(cmd)
	if err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		if err := p.End(end, endLimit); err != nil {
			t.Errorf("end %s: %v", cmd.Path, err)
		}
	})
	return p
}

// Go is the go command. It takes what the tests next to it leave of the
// processors: compilers use all that they get.
func Go(words ...string) *exec.Cmd {
	return exec.Command("nice", append([]string{"-n", "19", "go"}, words...)...)
}

// Write writes a script that is going to be run. No process is made
// meanwhile: it would have the file open for a moment, and the kernel runs no file
// that a process may write to.
func Write(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	testenv.Must(t, os.WriteFile(path, []byte(script), 0o700))
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process runs. A nil one does not.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Signal sends s to the process, by its ID alone. One that has ended is fine.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stopped fails until a SIGSTOP is heeded. One thread hears of it, whenever it
// gets a processor, and stops all: then no other does anything more.
func (p *Process) Stopped() error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread that has ended meanwhile has none
		if at := bytes.LastIndexByte(text, ')'); at >= 0 && bytes.HasPrefix(text[at:], []byte(") T")) {
			return nil
		}
	}
	return fmt.Errorf("none of its %d threads has stopped", len(tasks))
}

// Wait waits for the end of the process.
func (p *Process) Wait(limit time.Duration) error {
	_, err := testwait.Take(limit, p.Done, fmt.Sprintf("process %d ends", p.cmd.Process.Pid))
	return err
}

// End sends s, and SIGKILL if that does not end it within the limit, which is
// an error too.
func (p *Process) End(s syscall.Signal, limit time.Duration) error {
	if !p.Running() {
		return nil
	}
	if err := p.Signal(s); err != nil {
		return err
	}
	err := p.Wait(limit)
	if err != nil {
		err = errors.Join(err, p.Signal(syscall.SIGKILL), p.Wait(limit))
	}
	return err
}
