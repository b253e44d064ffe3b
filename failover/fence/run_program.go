package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/internal/program"
)

// pipesLinger is how long the output of a program may stay open after its end: a
// child that left its process group may hold it.
const pipesLinger = time.Second

// runProgram runs a program to its end, without arguments, and kills it with all
// that it started when ctx ends. A program that a signal killed is an error.
func runProgram(ctx context.Context, path string, input []byte) (result, error) {
	out, moans := &program.Kept{Most: maxSaid}, &program.Kept{Most: maxSaid}
	cmd := exec.Command(path)
	// Agents are Python programs that warn of their own age before they say what is
	// wrong.
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "PYTHONWARNINGS=ignore"}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, moans
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipesLinger
	if err := cmd.Start(); err != nil {
		return result{}, hopeless("install it on every peer", "start the program: %w", err)
	}
	waited := waitInGroup(ctx, cmd)
	var exit *exec.ExitError
	r := result{code: cmd.ProcessState.ExitCode(), said: out.String(), moaned: moans.String()}
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("%s was killed: %w", path, context.Cause(ctx))
	case r.code < 0:
		return r, fmt.Errorf("%s: %w", path, waited)
	case waited != nil && !errors.As(waited, &exit) && !errors.Is(waited, exec.ErrWaitDelay) &&
		!errors.Is(waited, syscall.EPIPE):
		return r, fmt.Errorf("input and output of %s: %w", path, waited)
	}
	return r, nil
}

// waitInGroup waits for the end of cmd, which leads a process group, and kills what
// is left of the group; before, if ctx ends. The group's number is safe to kill
// only while its leader has not been reaped, hence the look that does not reap.
func waitInGroup(ctx context.Context, cmd *exec.Cmd) error {
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // no process is left: as it should be
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		kill()
	})
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break // any other error shows again in Wait
		}
	}
	if !stop() {
		<-killed
	}
	kill()
	return cmd.Wait()
}
