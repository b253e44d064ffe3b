//go:build e2e

package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testwait"
)

// unreadPipe is one that is not read, and takes a page of memory.
func unreadPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// TestPeerOutlivesItsLog: a peer leads on while its log is not read, and once its reader is gone; it says so, and
// ends in order.
func TestPeerOutlivesItsLog(t *testing.T) {
	p := newProcessPeer(t, "h1")
	p.must("init", "-q")
	r, w := unreadPipe(t)
	p.startLogging(w)
	p.awaitVoters(1)
	warned := func(text string) {
		t.Helper()
		testwait.Within(t, time.Minute, "log_unread: "+text, func() error {
			s := p.status()
			if !slices.ContainsFunc(s.Warnings, func(w api.Warning) bool {
				return w.Code == "log_unread" && strings.Contains(w.Text, text)
			}) {
				return fmt.Errorf("status is %+v", s)
			}
			return nil
		})
	}
	for n := range 30 { // of 150 bytes and more, in the audit
		p.must("debug", "setting", "put", "user.n", fmt.Sprint(n))
	}
	warned("a write has been under way")
	r.Close()
	p.must("debug", "setting", "put", "user.n", "x")
	warned("broken pipe")
	if err := p.serving.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != term.ExitOK {
		t.Errorf("process-outlives-its-log: exit %d", code)
	}
}

// TestStopOfAnUnreadLog ends in order, although its last lines are not taken.
func TestStopOfAnUnreadLog(t *testing.T) {
	p := newProcessPeer(t, "h1")
	p.must("init", "-q")
	_, w := unreadPipe(t)
	p.startLogging(w)
	p.awaitVoters(1)
	for n := range 30 {
		p.must("debug", "setting", "put", "user.n", fmt.Sprint(n))
	}
	if err := p.serving.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != term.ExitOK {
		t.Errorf("process-outlives-its-log: exit %d", code)
	}
}

// TestOthersEndWithTheirReader, as 'trivet help | true' wants, without a word.
func TestOthersEndWithTheirReader(t *testing.T) {
	r, w := unreadPipe(t)
	r.Close()
	var talk bytes.Buffer
	cmd := exec.Command("trivet", "help")
	cmd.Stdout, cmd.Stderr = w, &talk
	_ = cmd.Run() // how it ended is looked at
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGPIPE || talk.Len() > 0 {
		t.Errorf("others-end-with-their-reader: %v, %s", cmd.ProcessState, &talk)
	}
}
