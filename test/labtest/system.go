//go:build e2e

package labtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// A host is slow where two cores are shared; a boot takes 2 s on an idle one.
const systemLimit = time.Minute

// systemRebooted is how systemd-nspawn ends when what runs in it reboots.
const systemRebooted = 133

// System is a Debian with a systemd of its own, in a container. Its methods are
// for the goroutine of the test.
type System struct {
	// Dir is its root directory, which a reboot keeps.
	Dir string

	t       testing.TB
	name    string // of the container
	options []string
	nspawn  *program.Process
	console *bytes.Buffer
	init    string // process ID of its systemd
}

// DebianRoot makes a small Debian, a minute on a fresh machine, and keeps it for
// every test. Nobody may write to it.
func DebianRoot(t testing.TB) string {
	t.Helper()
	testenv.NeedRoot(t, "mmdebstrap")
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	root := filepath.Join(cache, "trivet-test", "debian-4") // count up when what is in it changes
	testenv.Must(t, os.MkdirAll(filepath.Dir(root), 0o755))
	defer program.Lock(t, root+".lock")()
	if _, err := os.Stat(root); err == nil {
		return root
	}
	part := root + ".part"
	testenv.Must(t, os.RemoveAll(part))
	sh(t, "mmdebstrap", "--mode=root", "--variant=minbase", "--aptopt=APT::Install-Recommends \"false\"",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--include=systemd,systemd-sysv,dbus,iproute2,iptables,nftables,dnsmasq,ipxe,curl,apache2-utils,python3", "bookworm",
		part)
	testenv.Must(t, os.Rename(part, root))
	return root
}

// Overlay mounts a copy of root that nothing outlives.
func Overlay(t testing.TB, root string) string {
	t.Helper()
	base := t.TempDir()
	for _, name := range []string{"upper", "work", "root"} {
		testenv.Must(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	dir := filepath.Join(base, "root")
	sh(t, "mount", "-t", "overlay", "overlay", "-o",
		fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", root, base, base), dir)
	t.Cleanup(func() { sh(t, "umount", dir) })
	return dir
}

// StartSystem boots a copy of root under a hostname, with a network of its own
// that has no interface. It is gone when the test ends.
func StartSystem(t testing.TB, root, hostname string) *System {
	t.Helper()
	return startSystem(t, root, hostname, "--private-network")
}

func startSystem(t testing.TB, root, hostname, network string) *System {
	t.Helper()
	testenv.NeedRoot(t, "systemd-nspawn", "nsenter")
	// Hosts of two tests may have the same hostname.
	s := &System{t: t, Dir: Overlay(t, root), name: fmt.Sprintf("trivet-test-%s-%s", hostname, rand.Text())}
	s.options = []string{"--quiet", "--directory=" + s.Dir, "--register=no", "--keep-unit", "--boot",
		"--machine=" + s.name,
		"--hostname=" + hostname, network, "--capability=CAP_NET_ADMIN,CAP_NET_RAW"}
	for name, text := range map[string]string{"machine-id": "", "hostname": hostname + "\n"} {
		testenv.Must(t, os.WriteFile(filepath.Join(s.Dir, "etc", name), []byte(text), 0o644))
	}
	t.Cleanup(s.end)
	s.boot()
	return s
}

func (s *System) boot() {
	s.t.Helper()
	cmd := exec.Command("systemd-nspawn", s.options...)
	s.console = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = s.console, s.console
	var err error
	if s.nspawn, err = program.Start(cmd); err != nil {
		s.t.Fatalf("start a container: %v", err)
	}
	eventually(s.t, systemLimit, s.name+" is up", func() error {
		// The last of those that systemd-nspawn starts, one after the other.
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		if err != nil {
			return err
		}
		if s.init = strings.TrimSpace(string(children)); s.init == "" {
			return errors.New("it has no systemd yet")
		}
		out, _ := s.Try("systemctl", "is-system-running") // "starting" is an error, too
		if !strings.HasPrefix(out, "running") && !strings.HasPrefix(out, "degraded") {
			return fmt.Errorf("it says %q", out)
		}
		return nil
	})
}

// shut shuts it down in order, as a reboot does before boot.
func (s *System) shut() {
	s.t.Helper()
	_, _ = s.Try("systemctl", "reboot") // its connection may be cut before it answers
	if err := s.nspawn.Wait(systemLimit); err != nil || s.nspawn.Code != systemRebooted {
		s.t.Fatalf("%s does not reboot: exit code %d (%v)\n%s", s.name, s.nspawn.Code, err, s.console)
	}
	s.init = ""
}

func (s *System) end() {
	if s.init != "" && s.nspawn.Running() {
		sh(s.t, "kill", "-9", s.init) // it ends with everything in it, and the container after it
	}
	if s.nspawn != nil {
		if err := s.nspawn.Wait(systemLimit); err != nil {
			s.t.Error(err)
		}
		if s.t.Failed() {
			s.t.Logf("console of %s:\n%s", s.name, s.console)
		}
	}
	_ = os.Remove("/run/systemd/nspawn/propagate/" + s.name)      // where this systemd makes them
	_ = os.RemoveAll("/run/systemd/nspawn/unix-export/" + s.name) // likewise
}

// Try runs a command on the host, for five minutes at most, and returns what it
// said.
func (s *System) Try(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--all", "--target", s.init}, words...)...)
	cmd.Env = []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "HOME=/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must is Try of a command that has to succeed.
func (s *System) Must(words ...string) string {
	s.t.Helper()
	out, err := s.Try(words...)
	if err != nil {
		s.t.Fatalf("%s on %s: %v\n%s\n%s", strings.Join(words, " "), s.name, err, out, s.Journal())
	}
	return out
}

// status is what its peer says of itself.
func (s *System) status() (st api.Status, err error) {
	said, err := s.Try("sh", "-c", statusJSON)
	if err != nil {
		return st, fmt.Errorf("%s: %w: %s", s.name, err, said)
	}
	return st, json.Unmarshal([]byte(said), &st)
}

// statusJSON prints the status of a host's peer; degraded, exit code 2, is no failure.
const statusJSON = "trivet status -o json 2>/dev/null || [ $? = 2 ]"

// Journal is the end of what its services wrote.
func (s *System) Journal() string {
	text, _ := s.Try("journalctl", "--no-pager", "--lines=40") // as far as there is one
	return text
}

// Property asks its systemd for a property of a unit.
func (s *System) Property(unit, name string) string {
	s.t.Helper()
	return strings.TrimSpace(s.Must("systemctl", "show", "--property="+name, "--value", unit))
}

// Place copies a file into root's home directory and returns its path there.
func (s *System) Place(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Dir, "root", filepath.Base(path)), text, 0o644)
	}
	testenv.Must(s.t, err)
	return "/root/" + filepath.Base(path)
}
