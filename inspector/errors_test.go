package inspector

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// TestClasses of what callbacks are answered with status 500.
func TestClasses(t *testing.T) {
	for want, err := range map[string]error{
		"KeyError":     fmt.Errorf("read: %w", &document.Exception{Class: "KeyError", Text: "'cpu'"}),
		"IronicError":  fmt.Errorf("set: %w", &ironic.Error{Status: 500}),
		"panic":        &panicError{"boom"},
		"TimeoutError": &endlessError{hook: "slow"},
	} {
		if got := ErrorClass(err); got != want {
			t.Errorf("%v is of class %s, want %s", err, got, want)
		}
	}
	if err := error(&document.Exception{Class: "KeyError", Text: "'cpu'"}); err.Error() != "'cpu'" ||
		errors.As(err, new(*document.Problem)) {
		t.Errorf("%v", err)
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("ä", errorMaximum)
	for text, want := range map[string]string{
		"": "failed without a reason", "a\xffb": "a?b", "short": "short",
		long: long[:errorMaximum-4] + "…", "x" + long: "x" + long[:errorMaximum-4] + "…",
	} {
		if got := Clip(text); got != want {
			t.Errorf("%d bytes became %d, want %d", len(text), len(got), len(want))
		}
	}
}
