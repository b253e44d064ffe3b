package testenv

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// outcome notes how a test ended. Fatalf and Skipf of testing.TB do not return;
// these do.
type outcome struct {
	testing.TB
	failed, skipped bool
}

func (o *outcome) Helper()               {}
func (o *outcome) Fatalf(string, ...any) { o.failed = true }
func (o *outcome) Skipf(string, ...any)  { o.skipped = true }

func TestMissing(t *testing.T) {
	for ci, want := range map[string]outcome{"true": {failed: true, skipped: true}, "": {skipped: true}} {
		t.Setenv("CI", ci)
		var got outcome
		Missing(&got, "no %s", "root")
		if got.failed != want.failed || !got.failed && !got.skipped {
			t.Errorf("CI=%q: %+v", ci, got)
		}
	}
}

// TestNeedRoot: where a command is missing, root alone does not suffice.
func TestNeedRoot(t *testing.T) {
	t.Setenv("CI", "")
	var got outcome
	if NeedRoot(&got, "no-such-command"); !got.skipped {
		t.Error("a test without its command runs")
	}
}

func TestRefusingAddress(t *testing.T) {
	at := RefusingAddress(t)
	for range 3 {
		if _, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want a refused connection", at, err)
		}
	}
	if other := RefusingAddress(t); other == at {
		t.Errorf("%s is given twice", at)
	}
}
