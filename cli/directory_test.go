//go:build e2e

package cli

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// A peer whose disk hangs is killed and keeps its directory until the disk is back: the next process,
// which systemd starts meanwhile, is not given up.
func TestServeWaitsForTheProcessBefore(t *testing.T) {
	p := newProcessPeer(t, "h1")
	p.must("init")
	lock, err := os.OpenFile(filepath.Join(p.dir, "d", "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if code, _, talk := p.run("serve"); code != term.ExitConflict || !strings.Contains(talk, "another trivet process") {
		t.Errorf("serve-waits: started by a person it ends with exit code %d: %s", code, talk)
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(p.dir, "n")})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	p.env = append(p.env, "NOTIFY_SOCKET="+filepath.Join(p.dir, "n"))
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.startLogging(log)
	testwait.Until(t, "serve-waits: the line that it waits", func() bool {
		text, err := os.ReadFile(log.Name())
		return err == nil && strings.Contains(string(text), "waiting for the end")
	})
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	p.awaitVoters(1)
}

// Root runs the peer of another user's directory by hand, as status advises: the service can start it
// afterwards.
func TestServeByRootLeavesTheDirectoryToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "only root can act for another user")
	}
	const user = 54321
	p := newProcessPeer(t, "h1")
	p.env = append(p.env, "TRIVET_RAFT_LOG_STORE=wal")
	makeOwned(t, p.dir, user, nil, "d")
	p.must("init")
	p.start()
	p.awaitVoters(1)
	if err := p.serving.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != term.ExitOK {
		t.Fatalf("exit %d: %s", code, p.log.String())
	}
	err := filepath.WalkDir(filepath.Join(p.dir, "d"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != user {
			t.Errorf("serve-by-root: %s belongs to %d, and not to the owner of the directory", path, s.Uid)
		}
		return errors.Join(err)
	})
	if err != nil {
		t.Fatal(err)
	}
}
