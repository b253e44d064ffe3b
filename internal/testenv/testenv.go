// Package testenv answers for what the machine that runs a test lacks.
package testenv

import (
	"os"
	"testing"
)

// Missing skips a test because this machine lacks root, a program, a kernel
// feature or a lab. With CI=true it fails the test instead: continuous
// integration has all of them, and a test that is skipped there protects nothing.
// Call it from the goroutine that runs the test. It does not return.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("skipped with CI=true, which allows no skips: "+format, args...)
	}
	t.Skipf(format, args...)
}
