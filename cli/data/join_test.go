package data

import (
	"errors"
	"net/http"
	"syscall"
	"testing"

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
