package data

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
)

func TestExitCodesOfJoin(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("context of it: %w", err) }
	cases := []struct {
		name string
		err  error
		want int
	}{
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
}
