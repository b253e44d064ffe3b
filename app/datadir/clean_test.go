package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What an operator laid there is theirs, though its name begins the same way.
func TestCleanRemovesWhatASwitchLeft(t *testing.T) {
	root := t.TempDir()
	left := []string{"before-join-20260701T000000Z", "before-recover-20260701T000000Z", "before-restore-20260701T000001Z"}
	others := []string{"before-upgrade-1", "before-restore-of-monday", "before-join-20260701T000000Z.tar", "peer"}
	for _, name := range append(others, left...) {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "before-recover-20260702T000000Z"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		removed, err := Clean(root, dry)
		for i := range removed {
			removed[i] = filepath.Base(removed[i])
		}
		if err != nil || !slices.Equal(removed, left) {
			t.Errorf("switches-alone: dry %v removes %q (%v), want %q", dry, removed, err, left)
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 5 {
		t.Errorf("others-stay: %v (%v), want the five names of others", entries, err)
	}
	if removed, err := Clean(filepath.Join(root, "none"), false); err != nil || len(removed) != 0 {
		t.Errorf("no directory: %v, %v", removed, err)
	}
	if _, err := Clean(filepath.Join(root, "before-recover-20260702T000000Z"), false); err == nil {
		t.Error("said-unread: a data directory that cannot be read has nothing left in it")
	}
}
