package data

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHasUnit: systemd must run, and know the service.
func TestHasUnit(t *testing.T) {
	root := t.TempDir()
	if hasUnit(root) {
		t.Error("an empty root has a unit")
	}
	unit := filepath.Join(root, "usr/lib/systemd/system")
	if err := os.MkdirAll(unit, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unit, "trivet.service"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if hasUnit(root) {
		t.Error("systemd does not run, as in a chroot")
	}
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !hasUnit(root) {
		t.Error("the unit was not seen")
	}
}
