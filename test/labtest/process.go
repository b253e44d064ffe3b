//go:build e2e

package labtest

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

	"github.com/trivet-ha/trivet/test/testwait"
)

// process is one run of a program. It dies with the test's process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when code is set
	code int           // as a shell would give it; -1: killed by a signal
}

// launch starts cmd and watches for its end.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the state below says how it ended
		p.code = cmd.ProcessState.ExitCode()
	}()
	return p, nil
}

// goTool is the go command. It takes what the tests beside it leave of the
// processors: compilers use all that they get.
func goTool(words ...string) *exec.Cmd {
	return exec.Command("nice", append([]string{"-n", "19", "go"}, words...)...)
}

// writeProgram writes a script that is going to be run. No process is made
// meanwhile: it would have the file open for a moment, and the kernel runs no file
// that somebody may write to.
func writeProgram(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends s to the process, by its ID alone. One that has ended is fine.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// stopped fails until a SIGSTOP is heeded. One thread hears of it, whenever it
// gets a processor, and stops all: then no other does anything more.
func (p *process) stopped() error {
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

// wait waits for the end of the process.
func (p *process) wait(limit time.Duration) error {
	_, err := testwait.Take(limit, p.done, fmt.Sprintf("process %d ends", p.cmd.Process.Pid))
	return err
}

// end sends s, and SIGKILL if that does not end it within the limit, which is
// an error too.
func (p *process) end(s syscall.Signal, limit time.Duration) error {
	if !p.running() {
		return nil
	}
	if err := p.signal(s); err != nil {
		return err
	}
	err := p.wait(limit)
	if err != nil {
		err = errors.Join(err, p.signal(syscall.SIGKILL), p.wait(limit))
	}
	return err
}
