package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A process that is killed while it writes a snapshot leaves a folder as large as the state, which raft
// never looks at again. The next opening removes it.
func TestUnfinishedSnapshotIsRemoved(t *testing.T) {
	for way, open := range ways {
		dir := made(t)
		left := filepath.Join(dir, "snapshots", "2-150-1795894034005.tmp")
		if err := errors.Join(
			os.MkdirAll(left, 0o700), os.WriteFile(filepath.Join(left, "state.bin"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		st, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("unfinished-snapshot: %s: it is still there (%v)", way, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
