package local

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

func TestExitCodes(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("context of it: %w", err) }
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"locked", DirError(wrap(datadir.ErrLocked)), term.ExitConflict},
		{"no peer", DirError(wrap(datadir.ErrNoPeer)), term.ExitUsage},
		{"damaged", DirError(wrap(&datadir.CorruptError{Path: "log.db", Err: errors.New("bad")})), term.ExitFailed},
		{"full", DirError(wrap(syscall.ENOSPC)), term.ExitFailed},
		{"read-only", DirError(wrap(syscall.EROFS)), term.ExitFailed},
		{"not ours", DirError(wrap(fs.ErrPermission)), term.ExitFailed},
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
