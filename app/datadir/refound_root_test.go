//go:build e2e

package datadir

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// What root's command left when it was killed keeps the service's user from nothing.
func TestFolderOfRootIsPassedOver(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Missing(t, "needs root, to leave a folder that another user cannot remove")
	}
	root := t.TempDir()
	for _, path := range []string{root, filepath.Dir(root)} {
		if err := os.Chmod(path, 0o755); err != nil { // another user opens it
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, ".new-1", "raft"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &Dir{root: root}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
			done <- errno
			return
		}
		done <- d.sweep()
	}()
	if err := testwait.Receive(t, done, "the folder is swept"); err != nil {
		t.Errorf("another user's folder: %v", err)
	}
}
