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
		{"nothing", nil, ExitOK},
		{"anything", errors.New("broken"), ExitFailed},
		{"deadline", wrap(context.DeadlineExceeded), ExitOutcomeUnknown},
		{"failure", wrap(fail(ExitNotFound, "", "gone")), ExitNotFound},
		{"api invalid", &api.Error{Code: api.CodeInvalid}, ExitUsage},
		{"api not found", wrap(&api.Error{Code: api.CodeNotFound}), ExitNotFound},
		{"api conflict", &api.Error{Code: api.CodeConflict}, ExitConflict},
		{"api no leader", &api.Error{Code: api.CodeNoLeader}, ExitNoLeader},
		{"api unknown outcome", &api.Error{Code: api.CodeOutcomeUnknown}, ExitOutcomeUnknown},
		{"api table full", &api.Error{Code: api.CodeTableFull}, ExitFailed},
		{"api not authorised", &api.Error{Code: api.CodeNotAuthorised}, ExitNotAuthorised},
		{"api off", &api.Error{Code: api.CodeOff}, ExitUsage},
		{"leases are off", wrap(&client.Error{Status: 404, Message: api.LeasesOff + " to true"}), ExitUsage},
		{"no such lease", &client.Error{Status: 404, Message: "nobody has it"}, ExitNotFound},
		{"no data is stored", &client.Error{Status: 404, Message: "Inspector is not configured to store data. Set the [processing]store_data configuration option to change this."}, ExitUsage},
		{"no data is stored to reapply", &client.Error{Status: 400, Message: "Inspector is not configured to store introspection data. Set the [processing]store_data configuration option to change this."}, ExitUsage},
		{"api failed", &api.Error{Code: api.CodeFailed}, ExitFailed},
		{"locked", dirError(wrap(datadir.ErrLocked)), ExitConflict},
		{"no peer", dirError(wrap(datadir.ErrNoPeer)), ExitUsage},
		{"damaged", dirError(wrap(&datadir.CorruptError{Path: "log.db", Err: errors.New("bad")})), ExitFailed},
		{"full", dirError(wrap(syscall.ENOSPC)), ExitFailed},
		{"read-only", dirError(wrap(syscall.EROFS)), ExitFailed},
		{"not ours", dirError(wrap(fs.ErrPermission)), ExitFailed},
		{"unknown entry", startError(wrap(app.ErrUnknown)), ExitUnknownEntry},
		{"port taken", startError(wrap(&app.ListenError{Option: "api.listen", Address: ":5050", Err: syscall.EADDRINUSE})), ExitFailed},
		{"join 400", joinError("h:1", wrap(&cluster.JoinError{Status: 400})), ExitUsage},
		{"join 401", joinError("h:1", wrap(&cluster.JoinError{Status: 401})), ExitNotAuthorised},
		{"join 409", joinError("h:1", wrap(&cluster.JoinError{Status: 409})), ExitConflict},
		{"join 409 with a hint", joinError("h:1", wrap(&cluster.JoinError{Status: 409, Hint: "--name"})), ExitConflict},
		{"join 503", joinError("h:1", wrap(&cluster.JoinError{Status: 503})), ExitNoLeader},
		{"join other CA", joinError("h:1", wrap(pki.ErrCAHash)), ExitNotAuthorised},
		{"join clock", joinError("h:1", wrap(&pki.ValidityError{})), ExitFailed},
		{"join refused", joinError("h:1", wrap(syscall.ECONNREFUSED)), ExitFailed},
		{"join no such host", joinError("h:1", wrap(&net.DNSError{Err: "no such host", Name: "h"})), ExitFailed},
		{"join timeout", joinError("h:1", wrap(context.DeadlineExceeded)), ExitFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := exitOf(c.err); got != c.want {
				t.Errorf("exit %d, want %d", got, c.want)
			}
			var f *Failure
			var e *api.Error
			if (errors.As(c.err, &f) || errors.As(c.err, &e)) && c.name != "failure" && hintOf(c.err) == "" {
				t.Error("a refusal without a hint")
			}
		})
	}
	if ExitLostLeadership != leader.ExitLostLeadership {
		t.Errorf("75 of the command line is %d in leader", leader.ExitLostLeadership)
	}
}

// noted returns a program whose end is only noted.
func noted(code *int) (*program, *bytes.Buffer) {
	var talk bytes.Buffer
	return &program{errw: &talk, exit: func(c int) { *code = c }}, &talk
}

func TestUnknownEntryExitsWithoutStopping(t *testing.T) {
	code := -1
	p, talk := noted(&code)
	d := &daemon{program: p, log: slog.New(slog.DiscardHandler)} // no peer: Stop would crash the test
	err := d.ended(t.Context(), fmt.Errorf("%w: log entry 7: kind 99", app.ErrUnknown))
	if code != ExitUnknownEntry || exitOf(err) != ExitUnknownEntry {
		t.Errorf("exit %d, returned %d, want %d", code, exitOf(err), ExitUnknownEntry)
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
	p.exitNow(ExitLostLeadership, errors.New("duty gate did not stop"))
	if code != ExitLostLeadership || !strings.Contains(talk.String(), "duty gate did not stop") {
		t.Errorf("exit %d, said:\n%s", code, talk)
	}
}
