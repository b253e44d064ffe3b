package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestSavedFile: the file that is there changes wholly or not at all, and keeps
// its mode; a pipe is written into.
func TestSavedFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "f"), filepath.Join(dir, "l")
	if err := writeWhole(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Chmod(path, 0o644), os.Symlink("f", link), writeWhole(link, []byte("two"))); err != nil {
		t.Fatal(err)
	}
	info, err = os.Lstat(path)
	text, errRead := os.ReadFile(path)
	if err := errors.Join(err, errRead); err != nil || info.Mode() != 0o644 || string(text) != "two" {
		t.Errorf("%v, %q, %v", info.Mode(), text, err)
	}
	if err := writeWhole(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s was replaced: %v", os.DevNull, err)
	}
	if err := writeWhole(filepath.Join(dir, "no", "f"), nil); err == nil {
		t.Error("a directory that is not there was no error")
	}
	if err := writeWhole(dir, nil); err == nil {
		t.Error("a directory was written to")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
