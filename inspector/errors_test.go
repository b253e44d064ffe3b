package inspector

import (
	"errors"
	"fmt"
	"testing"
)

// TestClasses of what callbacks are answered with status 500.
func TestClasses(t *testing.T) {
	for want, err := range map[string]error{
		"KeyError":     fmt.Errorf("read: %w", &Exception{Class: "KeyError", Text: "'cpu'"}),
		"IronicError":  fmt.Errorf("set: %w", &IronicError{Status: 500}),
		"panic":        &panicError{"boom"},
		"TimeoutError": &endlessError{hook: "slow"},
	} {
		if got := class(err); got != want {
			t.Errorf("%v is of class %s, want %s", err, got, want)
		}
	}
	if err := error(&Exception{Class: "KeyError", Text: "'cpu'"}); err.Error() != "'cpu'" || errors.As(err, new(*Problem)) {
		t.Errorf("%v", err)
	}
}
