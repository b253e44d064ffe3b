package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

func TestExitCodes(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("context of it: %w", err) }
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, term.ExitOK},
		{"anything", errors.New("broken"), term.ExitFailed},
		{"deadline", wrap(context.DeadlineExceeded), term.ExitOutcomeUnknown},
		{"failure", wrap(term.Fail(term.ExitNotFound, "", "gone")), term.ExitNotFound},
		{"api invalid", &api.Error{Code: api.CodeInvalid}, term.ExitUsage},
		{"api not found", wrap(&api.Error{Code: api.CodeNotFound}), term.ExitNotFound},
		{"api conflict", &api.Error{Code: api.CodeConflict}, term.ExitConflict},
		{"api no leader", &api.Error{Code: api.CodeNoLeader}, term.ExitNoLeader},
		{"api unknown outcome", &api.Error{Code: api.CodeOutcomeUnknown}, term.ExitOutcomeUnknown},
		{"api table full", &api.Error{Code: api.CodeTableFull}, term.ExitFailed},
		{"api not authorised", &api.Error{Code: api.CodeNotAuthorised}, term.ExitNotAuthorised},
		{"api off", &api.Error{Code: api.CodeOff}, term.ExitUsage},
		{"leases are off", wrap(&client.Error{Status: 404, Message: api.LeasesOff + " to true"}), term.ExitUsage},
		{"no such lease", &client.Error{Status: 404, Message: "nobody has it"}, term.ExitNotFound},
		{"no data is stored", &client.Error{Status: 404, Message: "Inspector is not configured to store data. Set the [processing]store_data configuration option to change this."}, term.ExitUsage},
		{"no data is stored to reapply", &client.Error{Status: 400, Message: "Inspector is not configured to store introspection data. Set the [processing]store_data configuration option to change this."}, term.ExitUsage},
		{"api failed", &api.Error{Code: api.CodeFailed}, term.ExitFailed},
		{"locked", dirError(wrap(datadir.ErrLocked)), term.ExitConflict},
		{"no peer", dirError(wrap(datadir.ErrNoPeer)), term.ExitUsage},
		{"damaged", dirError(wrap(&datadir.CorruptError{Path: "log.db", Err: errors.New("bad")})), term.ExitFailed},
		{"full", dirError(wrap(syscall.ENOSPC)), term.ExitFailed},
		{"read-only", dirError(wrap(syscall.EROFS)), term.ExitFailed},
		{"not ours", dirError(wrap(fs.ErrPermission)), term.ExitFailed},
		{"unknown entry", startError(wrap(app.ErrUnknown)), term.ExitUnknownEntry},
		{"port taken", startError(wrap(&app.ListenError{Option: "api.listen", Address: ":5050", Err: syscall.EADDRINUSE})), term.ExitFailed},
		{"join 400", joinError("h:1", wrap(&cluster.JoinError{Status: 400})), term.ExitUsage},
		{"join 401", joinError("h:1", wrap(&cluster.JoinError{Status: 401})), term.ExitNotAuthorised},
		{"join 409", joinError("h:1", wrap(&cluster.JoinError{Status: 409})), term.ExitConflict},
		{"join 409 with a hint", joinError("h:1", wrap(&cluster.JoinError{Status: 409, Hint: "--name"})), term.ExitConflict},
		{"join 503", joinError("h:1", wrap(&cluster.JoinError{Status: 503})), term.ExitNoLeader},
		{"join other CA", joinError("h:1", wrap(pki.ErrCAHash)), term.ExitNotAuthorised},
		{"join clock", joinError("h:1", wrap(&pki.ValidityError{})), term.ExitFailed},
		{"join refused", joinError("h:1", wrap(syscall.ECONNREFUSED)), term.ExitFailed},
		{"join no such host", joinError("h:1", wrap(&net.DNSError{Err: "no such host", Name: "h"})), term.ExitFailed},
		{"join timeout", joinError("h:1", wrap(context.DeadlineExceeded)), term.ExitFailed},
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
	if term.ExitLostLeadership != leader.ExitLostLeadership {
		t.Errorf("75 of the command line is %d in leader", leader.ExitLostLeadership)
	}
}

// noted returns a program whose end is only noted.
func noted(code *int) (*program, *bytes.Buffer) {
	var talk bytes.Buffer
	return &program{Terminal: &term.Terminal{Err: &talk}, exit: func(c int) { *code = c }}, &talk
}

func TestUnknownEntryExitsWithoutStopping(t *testing.T) {
	code := -1
	p, talk := noted(&code)
	d := &daemon{program: p, log: slog.New(slog.DiscardHandler)} // no peer: Stop would crash the test
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
	p, talk := noted(&code)
	p.exitNow(term.ExitLostLeadership, errors.New("duty gate did not stop"))
	if code != term.ExitLostLeadership || !strings.Contains(talk.String(), "duty gate did not stop") {
		t.Errorf("exit %d, said:\n%s", code, talk)
	}
}
