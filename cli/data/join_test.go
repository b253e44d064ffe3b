package data

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
)

// TestWhatAJoinerWaitsFor: a wiped host that starts at once meets its own session,
// which ends by itself; a wrong token is wrong for ever.
func TestWhatAJoinerWaitsFor(t *testing.T) {
	refused := func(status int) error { return &cluster.JoinError{Status: status} }
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"no process listens", syscall.ECONNREFUSED, true},
		{"no leader", refused(http.StatusServiceUnavailable), true},
		{"the dead peer's session", refused(http.StatusConflict), true},
		{"wrong token", refused(http.StatusUnauthorized), false},
		{"nonsense", refused(http.StatusBadRequest), false},
		{"something else", errors.New("something else"), false},
		{"done", nil, false},
	} {
		if got := passing(c.err); got != c.want {
			t.Errorf("joiner: %s passes by itself: %v, want %v", c.name, got, c.want)
		}
	}
}

// A join that failed when the data of an earlier peer had been set aside says where it is, and
// never that nothing was changed.
func TestFailedJoinNamesWhatItSetAside(t *testing.T) {
	for name, err := range map[string]error{
		"refused":       &cluster.JoinError{Status: http.StatusConflict},
		"not good":      &cluster.JoinError{Status: http.StatusBadRequest},
		"with a hint":   &cluster.JoinError{Status: http.StatusConflict, Hint: "do that"},
		"no leader":     &cluster.JoinError{Status: http.StatusServiceUnavailable},
		"cut off":       errors.New("EOF"),
		"no answer":     syscall.ECONNREFUSED,
		"a full disk":   syscall.ENOSPC,
		"judged before": term.Fail(term.ExitUsage, untouched+"mend it", "wrong"),
	} {
		const folder = "/d/before-join-20260701T000000Z"
		failed := joinError("h1:7350", err)
		got := sayAside(&datadir.AsideError{Folder: folder, Err: err}, failed)
		if hint := term.HintOf(got); !strings.Contains(hint, folder) || strings.Contains(hint, "nothing was changed") ||
			term.ExitOf(got) != term.ExitOf(failed) {
			t.Errorf("aside-is-told: %s: exit %d, hint %s", name, term.ExitOf(got), hint)
		}
	}
}
