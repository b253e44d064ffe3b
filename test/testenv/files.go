package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// PutFile writes a file below a directory, such as the root of a host that a test makes up, with the
// directories above it.
func PutFile(t testing.TB, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
}

// GetFile returns the content of a file below a directory.
func GetFile(t testing.TB, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	Must(t, err)
	return string(text)
}

// Must ends the test with an error, if there is one. It is for steps that the test does not try:
// what it tries is told by its own words.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
