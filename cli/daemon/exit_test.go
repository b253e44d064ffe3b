package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

func TestExitCodesOfStart(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("context of it: %w", err) }
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"unknown entry", startError(wrap(app.ErrUnknown), "d"), term.ExitUnknownEntry},
		{"port taken",
			startError(wrap(&app.ListenError{Option: "api.listen", Address: ":5050", Err: syscall.EADDRINUSE}), "d"),
			term.ExitFailed},
		{"denied", startError(wrap(syscall.EACCES), "d"), term.ExitFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := term.ExitOf(c.err); got != c.want {
				t.Errorf("exit %d, want %d", got, c.want)
			}
			var f *term.Failure
			var e *api.Error
			if (errors.As(c.err, &f) || errors.As(c.err, &e)) && c.name != "failure" && term.HintOf(c.err) == "" {
				t.Error("a refusal without a hint")
			}
		})
	}
}

// noted returns a terminal, what it is told, and a function that notes an exit code.
func noted(code *int) (*term.Terminal, *bytes.Buffer, func(int)) {
	var talk bytes.Buffer
	return &term.Terminal{Err: &talk}, &talk, func(c int) { *code = c }
}

func TestUnknownEntryExitsWithoutStopping(t *testing.T) {
	code := -1
	on, talk, exit := noted(&code)
	d := &daemon{term: on, exit: exit, log: slog.New(slog.DiscardHandler)} // no peer: Stop would crash the test
	err := d.ended(t.Context(), fmt.Errorf("%w: log entry 7: kind 99", app.ErrUnknown))
	if code != term.ExitUnknownEntry || term.ExitOf(err) != term.ExitUnknownEntry {
		t.Errorf("exit %d, returned %d, want %d", code, term.ExitOf(err), term.ExitUnknownEntry)
	}
	if !strings.Contains(talk.String(), "kind 99") || !strings.Contains(talk.String(), "hint: install the version") {
		t.Errorf("it said:\n%s", talk)
	}
}

// TestLeaveWipesAfterAFailedStop is a peer that has left and whose log could not
// be closed. It has left all the same.
func TestLeaveWipesAfterAFailedStop(t *testing.T) {
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := os.Mkdir(dir.PeerDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: dir, log: slog.New(slog.DiscardHandler)}
	if err := d.wipe(errors.New("close the log: broken for the test")); err != nil {
		t.Error(err)
	}
	if has, err := dir.HasPeer(); has || err != nil {
		t.Errorf("the log is not wiped: %v, %v", has, err)
	}
}

func TestLameDuckSaysWhyAndExits(t *testing.T) {
	code := -1
	on, talk, exit := noted(&code)
	exitNow(on, exit, term.ExitLostLeadership, errors.New("duty gate did not stop"))
	if code != term.ExitLostLeadership || !strings.Contains(talk.String(), "duty gate did not stop") {
		t.Errorf("exit %d, said:\n%s", code, talk)
	}
}
