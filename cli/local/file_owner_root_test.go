//go:build e2e

package local

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestHandOver: what root makes in somebody's directory is that somebody's,
// whatever else lies about there.
func TestHandOver(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "only root can give files away")
	}
	const owner = 12345
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "root's")
	for _, path := range []string{elsewhere, filepath.Join(dir, "lock"), filepath.Join(dir, "other")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "peer"), 0o700), os.WriteFile(filepath.Join(dir, "peer", "log"), nil, 0o600),
		os.Symlink(elsewhere, filepath.Join(dir, "peer", "soft")), os.Link(elsewhere, filepath.Join(dir, "peer", "hard")),
		os.Mkdir(filepath.Join(dir, "backups"), 0o700),
		os.Chown(dir, owner, owner), os.Chown(filepath.Join(dir, "other"), 4, 4),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := HandOver(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]uint32{
		dir: owner, filepath.Join(dir, "lock"): owner, filepath.Join(dir, "peer"): owner,
		filepath.Join(dir, "peer", "log"):  owner,
		filepath.Join(dir, "peer", "soft"): owner, filepath.Join(dir, "other"): 4, filepath.Join(dir, "peer", "hard"): 0,
		filepath.Join(dir, "backups"): 0, elsewhere: 0,
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}
