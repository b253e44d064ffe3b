//go:build e2e

package serviceuser

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestEyesOfTheService: a file is read as the account may, by owner, group, further group and
// the directories on the way, and this process keeps its own rights.
func TestEyesOfTheService(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "only root can act as another user")
	}
	const user, group, further = 54321, 54322, 54323
	open, err := os.MkdirTemp("/var/tmp", "trivet-eyes-") // every directory above it can be passed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(open, "shut"), 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]struct {
		mode     fs.FileMode
		uid, gid int
		may      bool
	}{
		"root's": {0o600, 0, 0, false}, "root's group": {0o640, 0, 0, false}, "own": {0o400, user, 0, true},
		"group": {0o640, 0, group, true}, "further": {0o640, 0, further, true},
		"all": {0o644, 0, 0, true}, "another's": {0o640, 1, 1, false}, "own, forbidden": {0o044, user, 0, false},
		"shut/all": {0o644, 0, 0, false},
	} {
		path := filepath.Join(open, name)
		if err := errors.Join(
			os.WriteFile(path, nil, 0o600), os.Chmod(path, f.mode), os.Chown(path, f.uid, f.gid)); err != nil {
			t.Fatal(err)
		}
		read := func() error {
			file, err := os.Open(path)
			if err == nil {
				err = file.Close()
			}
			return err
		}
		got := errors.New("was not called")
		if err := (Account{user, group}).Do([]string{"54323"}, func() { got = read() }); err != nil {
			t.Fatal(err)
		}
		if (got == nil) != f.may || got != nil && !errors.Is(got, fs.ErrPermission) {
			t.Errorf("service-sees: %s: %v, may read: %t", name, got, f.may)
		}
		if err := read(); err != nil {
			t.Errorf("root-stays-root: %v", err)
		}
	}
	if after, err := os.Getgroups(); err != nil || !slices.Equal(after, before) {
		t.Errorf("root-stays-root: groups %v, before %v, %v", after, before, err)
	}
}
