//go:build e2e

package labtest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// ownRelease is the Debian of guests, whose kernel is 6.1, and ownPackages what
// is on it beside what Debian cannot do without.
const (
	ownRelease  = "bookworm"
	ownPackages = "linux-image-cloud-amd64,dnsmasq-base,iproute2,ipset,iptables,kmod,nftables,procps,socat"
)

// ownDirEnv names the variable with the directory in which the guests' disk is
// kept from one run to the next, about 330 MB. The default is one below
// os.TempDir.
const ownDirEnv = "TRIVET_E2E_PXE_IMAGES"

//go:embed testdata/own/init
var ownInit string

// ownImage is what guests are started from. Nobody writes to it.
type ownImage struct{ kernel, initrd, disk string }

// newOwnImage returns the image, and builds it, in a minute or two, unless it was.
func newOwnImage(t *testing.T) ownImage {
	t.Helper()
	base := os.Getenv(ownDirEnv)
	if base == "" {
		base = filepath.Join(os.TempDir(), "trivet-e2e-pxe")
	}
	sum := sha256.Sum256([]byte(ownRelease + ownPackages + ownInit))
	dir := filepath.Join(base, "guest-"+hex.EncodeToString(sum[:4]))
	image := ownImage{kernel: filepath.Join(dir, "vmlinuz"), initrd: filepath.Join(dir, "initrd.img"),
		disk: filepath.Join(dir, "root.img")}
	if _, err := os.Stat(dir); err == nil {
		return image
	}
	testenv.Must(t, os.MkdirAll(base, 0o755))
	part, err := os.MkdirTemp(base, "part-")
	testenv.Must(t, err)
	defer os.RemoveAll(part)
	buildOwnImage(t, part)
	testenv.Must(t, os.Rename(filepath.Join(part, "image"), dir))
	return image
}

// buildOwnImage makes kernel, initrd and disk in a directory "image" of dir.
func buildOwnImage(t *testing.T, dir string) {
	t.Helper()
	root, to := filepath.Join(dir, "root"), filepath.Join(dir, "image")
	sh(t, "mmdebstrap", "--mode=root", "--variant=minbase", "--aptopt=APT::Install-Recommends \"false\"",
		"--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", "--include="+ownPackages, ownRelease, root)
	for _, sub := range []string{to, filepath.Join(root, "data")} {
		testenv.Must(t, os.Mkdir(sub, 0o755))
	}
	testenv.Must(t, os.WriteFile(filepath.Join(root, "sbin", "lab-init"), []byte(ownInit), 0o755))
	for _, name := range []string{"vmlinuz", "initrd.img"} {
		sh(t, "mv", theOnly(t, filepath.Join(root, "boot", name+"-*")), filepath.Join(to, name))
	}
	// Without a journal: every guest writes to a copy that nothing outlives.
	makeDisk(t, filepath.Join(to, "root.img"), 1<<30, root, "^has_journal")
}

// makeDisk makes an ext4 of a size with what is in a directory.
func makeDisk(t testing.TB, path string, size int64, from, features string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(path, nil, 0o600))
	testenv.Must(t, os.Truncate(path, size))
	sh(t, "mke2fs", "-q", "-F", "-t", "ext4", "-O", features, "-d", from, path)
}

// cmdline is the kernel's command line of a guest. The timer is not checked: on a
// busy machine an emulated one may be too late for that.
func (ownImage) cmdline(words ...string) string {
	return fmt.Sprint(
		"root=/dev/vda rw init=/sbin/lab-init console=ttyS0 quiet panic=-1 fsck.mode=skip mitigations=off no_timer_check ",
		strings.Join(words, " "))
}
