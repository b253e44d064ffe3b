package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What a process that was killed left of a file that it was replacing, such as the credentials, is
// removed by the next one, as is what it left of a peer.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	root := t.TempDir()
	left := []string{filepath.Join(peerFolder, credentialsFile+unfinished), ".new-1", ".left-1"}
	err := os.Mkdir(filepath.Join(root, peerFolder), 0o700)
	for _, name := range left {
		err = errors.Join(err, os.WriteFile(filepath.Join(root, name), []byte("secret"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("unfinished-file: %s is still there (%v)", name, err)
		}
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}
