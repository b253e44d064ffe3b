//go:build e2e

package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// sh runs a command that has to succeed.
func sh(t testing.TB, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// mustOutput returns what a command prints, and ends the test if it fails.
func mustOutput(t testing.TB, words ...string) []byte {
	t.Helper()
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return out
}

// Tmpfs mounts a file system of the size given, such as "2m", for p's data
// directory; it is gone when the test ends.
func (p *Peer) Tmpfs(size string) {
	p.t.Helper()
	p.mount("-t", "tmpfs", "-o", "size="+size, "tmpfs")
}

// Ext4 mounts a file with an ext4 in it for p's data directory.
func (p *Peer) Ext4() {
	p.t.Helper()
	p.Ext4In(p.lab.dir)
}

// Ext4In is Ext4 whose file lies in a directory. Where the file system of that one is
// frozen, writes go on and syncs hang.
func (p *Peer) Ext4In(dir string) {
	p.t.Helper()
	image := filepath.Join(dir, p.Name+".img")
	testenv.Must(p.t, os.WriteFile(image, nil, 0o600))
	testenv.Must(p.t, os.Truncate(image, 128<<20))
	sh(p.t, "mkfs.ext4", "-q", "-F", image)
	p.mount("-o", "loop", image)
}

func (p *Peer) mount(what ...string) {
	p.t.Helper()
	testenv.Must(p.t, os.MkdirAll(p.Dir, 0o700))
	sh(p.t, append(append([]string{"mount"}, what...), p.Dir)...)
	// After the lab was made, so before its directory is removed.
	p.t.Cleanup(func() {
		p.Thaw()
		p.reap()
		sh(p.t, "umount", p.Dir)
	})
}

// Freeze makes every write to p's data directory hang.
func (p *Peer) Freeze() {
	p.t.Helper()
	sh(p.t, "fsfreeze", "-f", p.Dir)
}

// Thaw ends a Freeze, if there was one.
func (p *Peer) Thaw() {
	_ = exec.Command("fsfreeze", "-u", p.Dir).Run() // fails where nothing is frozen
}
