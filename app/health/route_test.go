package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestRouteError: a port that drops is told from one that refuses, whoever probed it.
func TestRouteError(t *testing.T) {
	dial := func(err error) error {
		return fmt.Errorf("greet h2: %w", &net.OpError{Op: "dial", Net: "tcp", Err: err})
	}
	for want, err := range map[string]error{
		"dropped: greet h2: dial tcp: i/o timeout":        dial(os.ErrDeadlineExceeded),
		"dropped: greet h2: context deadline exceeded":    fmt.Errorf("greet h2: %w", context.DeadlineExceeded),
		"refused: greet h2: dial tcp: connection refused": dial(syscall.ECONNREFUSED),
		"another peer answers":                            errors.New("another peer answers"),
		"greet h2: dial tcp: no route to host":            dial(syscall.EHOSTUNREACH),
		"":                                                nil,
	} {
		if got := routeError(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := routeError(context.Canceled); strings.Contains(got, "dropped") {
		t.Errorf("a question that was given up: %q", got)
	}
}
