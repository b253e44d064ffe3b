//go:build e2e

package iptables

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRunIsBounded(t *testing.T) {
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := run(limited, "", "/bin/sh", "-c", "exec sleep 86400"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that does not end: %v", err)
	}
	_, err := run(t.Context(), "", "/bin/sh", "-c", "exec head -c 40000000 /dev/zero")
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("output without end: %v", err)
	}
	_, err = run(t.Context(), "", "/bin/sh", "-c", "head -c 9000 /dev/zero | tr '\\0' x >&2; exit 3")
	if err == nil || len(err.Error()) > maxComplaint+100 {
		t.Errorf("a complaint without end: %d bytes, %v", len(err.Error()), err)
	}
	if out, err := run(t.Context(), "text", "/bin/cat"); err != nil || string(out) != "text" {
		t.Errorf("%q, %v", out, err)
	}
}
