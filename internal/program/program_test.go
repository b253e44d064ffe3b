//go:build e2e

package program

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A program has bounds of time, of output and of error messages, and reads its input.
func TestProgramIsBounded(t *testing.T) {
	if _, err := Run(t.Context(), 50*time.Millisecond, "/bin/sh", "-c", "exec sleep 86400"); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("a program that does not end: %v", err)
	}
	if _, err := Run(t.Context(), time.Minute, "/bin/sh", "-c", "exec head -c 40000000 /dev/zero"); err == nil ||
		!strings.Contains(err.Error(), "more than") {
		t.Errorf("output without end: %v", err)
	}
	said, err := Run(t.Context(), time.Minute, "/bin/sh", "-c", "head -c 9000 /dev/zero | tr '\\0' x >&2; exit 3")
	if err == nil || len(said.Complaint) != maxComplaint {
		t.Errorf("a complaint without end: %d bytes, %v", len(said.Complaint), err)
	}
	if said, err := Start(t.Context(), time.Minute, "text", "/bin/cat")(); err != nil || string(said.Output) != "text" {
		t.Errorf("%q, %v", said.Output, err)
	}
	if _, err := Find("a-program-that-no-host-has"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that is not installed: %v", err)
	}
}

// No option of ours, which may be a password, is in a program's environment.
func TestProgramsSeeNoOptions(t *testing.T) {
	t.Setenv("TRIVET_IRONIC_PASSWORD", "topsecret")
	t.Setenv("HTTPS_PROXY", "http://proxy.example")
	said, err := Run(t.Context(), time.Minute, "/usr/bin/env")
	if text := string(said.Output); err != nil || strings.Contains(text, "topsecret") ||
		!strings.Contains(text, "HTTPS_PROXY=") || !strings.Contains(text, "LC_ALL=C") {
		t.Errorf("programs-see-no-options: %v\n%s", err, text)
	}
}
