package local

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
)

// 'trivet snapshot save /dev/null', or to a link, by root: what is no file stays what it is,
// also where it came while the file was being written, and nothing is left next to it.
func TestWriteWholeReplacesFilesAlone(t *testing.T) {
	makes := map[string]func(string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o666) }, // made as a device is, without root
		"link": func(path string) error { return os.Symlink("elsewhere", path) },
		"dir":  func(path string) error { return os.Mkdir(path, 0o700) },
	}
	for name, create := range makes {
		for _, later := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			prepare := func() {
				if err := create(path); err != nil {
					t.Fatal(err)
				}
			}
			if !later {
				prepare()
			}
			wrote := false
			err := WriteWhole(path, func(f *os.File) error {
				wrote = true
				if later {
					prepare()
				}
				_, err := f.WriteString("the keys of the cluster")
				return err
			})
			if err == nil || term.ExitOf(err) != term.ExitUsage || term.HintOf(err) == "" || wrote != later {
				t.Errorf("device-replaced: %s, later %t: written %t: %v", name, later, wrote, err)
			}
			info, err := os.Lstat(path)
			if err != nil || info.Mode().IsRegular() {
				t.Errorf("device-replaced: %s, later %t: it is now %v (%v)", name, later, info, err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != name }) {
				t.Errorf("device-replaced: %s, later %t: left: %v (%v)", name, later, left, err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"a", "b"} {
		err := WriteWhole(path, func(f *os.File) error { _, err := f.WriteString(text); return err })
		if got, wrong := os.ReadFile(path); err != nil || wrong != nil || string(got) != text {
			t.Errorf("a file: %v, %q, %v", err, got, wrong)
		}
	}
}
