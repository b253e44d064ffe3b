//go:build e2e

package iptables

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// TestLeaseLacksAMatch tries the lease with a command that says what that of a
// kernel without the match recent does.
func TestLeaseLacksAMatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "iptables-restore")
	const says = "#!/bin/sh\ncat >\"$0.in\"; echo \"$*\" >\"$0.args\"; echo 'iptables-restore: unknown option \"--mask\"' >&2; exit 2\n"
	if err := os.WriteFile(path, []byte(says), 0o755); err != nil {
		t.Fatal(err)
	}
	f := family{name: "IPv4", restore: path, recent: "trivet_pxe", mask: "0.0.0.0"}
	if err := f.tryLease(t.Context()); err == nil || !strings.Contains(err.Error(), "--mask") {
		t.Errorf("a kernel without the match: %v", err)
	}
	for name, words := range map[string][]string{".in": {"-m recent", "-m time --datestop", "COMMIT"}, ".args": {"--test", "--noflush"}} {
		text, err := os.ReadFile(path + name)
		for _, word := range words {
			if err != nil || !strings.Contains(string(text), word) {
				t.Errorf("it is not asked for %q: %q (%v)", word, text, err)
			}
		}
	}
}
