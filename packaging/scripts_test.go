//go:build e2e

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
)

// host is what a script finds: commands that write down how they were called,
// and nothing else. No script of a test touches the machine it runs on.
type host struct {
	t   *testing.T
	dir string
}

// answers are what commands do beside being written down; the others succeed in
// silence.
var answers = map[string]string{
	"getent":             `[ -e "$HOST/user" ]`,
	"stat":               `echo root:root`,
	"useradd":            `: > "$HOST/user"`,
	"deb-systemd-helper": `[ "$1$2" != --quietwas-enabled ] || [ ! -e "$HOST/disabled" ]`,
	"systemctl":          `[ "$2" != is-active ] || [ -e "$HOST/active" ]`,
	"trivet":             `cat "$HOST/keys" 2>/dev/null || exit 2`,
	"iptables-nft-save": `[ "$2" = filter ] && printf ':INPUT ACCEPT [0:0]\n:TRIVET-PXE - [0:0]\n:OTHER - [0:0]\n` +
		`-A INPUT -i br-pxe -p udp -j TRIVET-PXE\n-A INPUT -j OTHER\n-A TRIVET-PXE -j DROP\n'`,
	"iptables-nft-restore": `echo "restore: $(cat | tr '\n' '|')" >> "$HOST/calls"`,
}

// newHost makes a host that has the commands; without systemd it is a chroot.
func newHost(t *testing.T, systemd bool, commands ...string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	if systemd {
		if err := os.Mkdir(filepath.Join(h.dir, "systemd"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range commands {
		h.write(filepath.Join("bin", name), "#!/bin/sh\necho \""+name+" $*\" >> \"$HOST/calls\"\n"+answers[name]+"\n")
	}
	h.link("sh", "cat", "awk", "tr", "ls") // change nothing
	return h
}

// link gives the host commands of the machine itself.
func (h *host) link(names ...string) {
	h.t.Helper()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.MkdirAll(filepath.Join(h.dir, "bin"), 0o755)
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(h.dir, "bin", name))
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) touch(name string) { h.write(name, "") }

func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// run runs a script and returns its exit code, what it said and what it called.
// Whatever it names in absolute terms is below the host's directory.
func (h *host) run(script string, args ...string) (code int, said, calls string) {
	h.t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		h.t.Fatal(err)
	}
	moved := strings.NewReplacer("/run/systemd/system", h.dir+"/systemd", "/run/trivet", h.dir+"/run", "/etc/trivet",
		h.dir+"/etc", "/var/lib/trivet", h.dir+"/state").Replace(string(text))
	cmd := exec.Command("/bin/sh", append([]string{"-c", moved, filepath.Base(script)}, args...)...)
	cmd.Env = []string{"PATH=" + h.dir + "/bin", "HOST=" + h.dir}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	called, err := os.ReadFile(filepath.Join(h.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	if strings.Contains(string(out), "not found") {
		h.t.Errorf("%s %v calls what this host does not have:\n%s", script, args, out)
	}
	return cmd.ProcessState.ExitCode(), string(out), strings.ReplaceAll(string(called), h.dir, "")
}

var (
	// whole is a host with everything.
	whole = []string{"trivet", "getent", "stat", "chgrp", "systemctl", "deb-systemd-helper", "install",
		"useradd", "groupadd", "userdel", "groupdel", "rm", "rmdir", "chown", "nft", "iptables-nft-save",
		"iptables-nft-restore"}
	// bare is a chroot with hardly anything.
	bare = []string{"getent", "stat", "chgrp", "install", "useradd", "groupadd", "userdel", "groupdel", "rm", "rmdir",
		"chown"}
)

// scriptCase is one way in which a package manager calls a script.
type scriptCase struct {
	script string
	args   []string
	marks  []string // of the host: user (exists), active (the peer runs), disabled (by the operator), etc
	calls  []string // parts of what is called; "!" before what must not be
	says   string   // a part of what is said; "" for nothing
	code   int
}

// nothing is called.
var nothing = []string{"!systemctl", "!user", "!group", "!rm", "!nft", "!deb-systemd-helper"}

func scriptCases() []scriptCase {
	first := []string{"useradd --system --user-group", "install -d -o trivet -g trivet -m 0700 /state", "!systemctl start",
		"!systemctl restart", "!systemctl enable"}
	run := []string{"!systemctl start", "!systemctl restart", "!systemctl stop", "!userdel", "!rm "}
	return []scriptCase{
		{"deb/postinst", []string{"configure", ""}, []string{"etc/trivet.yaml"},
			append(first, "deb-systemd-helper enable trivet.service", "daemon-reload", "chgrp trivet /etc/trivet.yaml"),
			"trivet init", 0},
		{"deb/postinst", []string{"configure", ""}, []string{"etc/trivet.yaml", "user"},
			[]string{"!/usr/share/trivet/trivet.yaml"}, "trivet init", 0},
		{"deb/postinst", []string{"configure", ""}, nil,
			[]string{"install -m 0640 /usr/share/trivet/trivet.yaml /etc/trivet.yaml"}, "trivet init", 0},
		{"deb/postinst", []string{"configure", "0.1.0"}, []string{"user"},
			append(run, "!useradd", "daemon-reload", "!/usr/share/trivet/trivet.yaml"), "", 0},
		{"deb/postinst", []string{"configure", "0.1.0"}, []string{"user", "active"}, run, "still runs as version 0.1.0", 0},
		{"deb/postinst", []string{"configure", "0.1.0"}, []string{"user", "disabled"},
			append(run, "update-state", "!deb-systemd-helper enable"), "", 0},
		{"deb/postinst", []string{"abort-upgrade", "0.2.0"}, nil, nothing, "", 0},
		{"deb/postinst", []string{"abort-remove"}, nil, nothing, "", 0},
		{"deb/postinst", []string{"abort-deconfigure"}, nil, nothing, "", 0},
		{"deb/postinst", []string{"frobnicate"}, nil, nothing, "unknown argument", 1},
		{"deb/prerm", []string{"remove"}, nil,
			[]string{"trivet haconfig uninstall --if-last", "systemctl stop trivet.service", "!trivet-firewall"}, "", 0},
		{"deb/prerm", []string{"upgrade", "0.2.0"}, []string{"active"}, nothing, "", 0},
		{"deb/prerm", []string{"deconfigure"}, []string{"active"}, nothing, "", 0},
		{"deb/prerm", []string{"failed-upgrade", "0.1.0"}, []string{"active"}, nothing, "", 0},
		{"deb/prerm", []string{"frobnicate"}, nil, nothing, "unknown argument", 1},
		{"deb/postrm", []string{"remove"}, []string{"user"}, []string{"daemon-reload", "!rm", "!userdel", "!nft", "!restore"},
			"stays shut until it is rebooted", 0},
		{"deb/postrm", []string{"purge"}, []string{"user"},
			[]string{"rm -rf --one-file-system /etc /run /run-hosts /state/peer ", "userdel trivet",
				"nft delete table inet trivet_pxe",
				"nft delete table arp trivet_address",
				"restore: *filter|-D INPUT -i br-pxe -p udp -j TRIVET-PXE|-F TRIVET-PXE|-X TRIVET-PXE|COMMIT|", "!OTHER",
				"deb-systemd-helper purge trivet.service"}, "", 0},
		{"deb/postrm", []string{"upgrade", "0.2.0"}, []string{"user"}, nothing, "", 0},
		{"deb/postrm", []string{"failed-upgrade", "0.1.0"}, []string{"user"}, nothing, "", 0},
		{"deb/postrm", []string{"abort-install"}, []string{"user"}, nothing, "", 0},
		{"deb/postrm", []string{"abort-upgrade", "0.1.0"}, []string{"user"}, nothing, "", 0},
		{"deb/postrm", []string{"disappear", "other", "1"}, []string{"user"}, nothing, "", 0},
		{"deb/postrm", []string{"frobnicate"}, nil, nothing, "unknown argument", 1},
		{"rpm/pre", []string{"1"}, nil, []string{"groupadd --system trivet", "useradd --system"}, "", 0},
		{"rpm/pre", []string{"2"}, []string{"user"}, []string{"!useradd", "!groupadd"}, "", 0},
		{"rpm/post", []string{"1"}, []string{"user"},
			[]string{"systemctl --no-reload preset trivet.service", "install -d -o trivet", "!start"}, "trivet init", 0},
		{"rpm/post", []string{"1"}, []string{"user", "state/peer"}, append(run, "preset trivet.service"),
			"trivet.yaml.rpmsave", 0},
		{"rpm/post", []string{"2"}, []string{"user"}, append(run, "!preset", "daemon-reload"), "", 0},
		{"rpm/post", []string{"2"}, []string{"user", "active"}, append(run, "!preset"), "an upgrade restarts no peer", 0},
		{"rpm/preun", []string{"0"}, []string{"user", "active"},
			[]string{"disable trivet.service", "trivet haconfig uninstall --if-last", "systemctl stop trivet.service"}, "", 0},
		{"rpm/preun", []string{"1"}, []string{"user", "active"}, nothing, "", 0},
		{"rpm/postun", []string{"0"}, []string{"user"}, []string{"daemon-reload", "!rm", "!userdel"},
			"stays shut until it is rebooted", 0},
		{"rpm/postun", []string{"1"}, []string{"user", "active"}, []string{"daemon-reload", "!restart", "!rm"}, "", 0},
	}
}

// TestScripts runs every script in every way in which dpkg and rpm call it, and
// besides in a chroot, where no systemd must be spoken to.
func TestScripts(t *testing.T) {
	for _, c := range scriptCases() {
		t.Run(fmt.Sprint(c.script, c.args, c.marks), func(t *testing.T) {
			h := newHost(t, true, whole...)
			for _, mark := range c.marks {
				h.touch(mark)
			}
			code, said, calls := h.run(c.script, c.args...)
			if code != c.code || !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("exit code %d, said %q; want %d and %q", code, said, c.code, c.says)
			}
			for _, want := range c.calls {
				if part, not := strings.CutPrefix(want, "!"); strings.Contains(calls, part) == not {
					t.Errorf("wants %q of:\n%s", want, calls)
				}
			}
		})
		t.Run(fmt.Sprint("chroot ", c.script, c.args, c.marks), func(t *testing.T) {
			h := newHost(t, false, bare...)
			for _, mark := range c.marks {
				h.touch(mark)
			}
			if code, said, _ := h.run(c.script, c.args...); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, said)
			}
			h = newHost(t, false, whole...)
			for _, mark := range c.marks {
				h.touch(mark)
			}
			_, _, calls := h.run(c.script, c.args...)
			for _, word := range []string{"daemon-reload", "stop", "start", "nft", "restore"} {
				if strings.Contains(calls, word) {
					t.Errorf("speaks to the system outside the chroot:\n%s", calls)
				}
			}
		})
	}
}

// TestConfigured: the filter's unit is skipped where nothing is written and no peer lives, and nowhere else.
func TestConfigured(t *testing.T) {
	const asked = "trivet config show -o name\n"
	for name, c := range map[string]struct {
		keys  *string
		peer  string
		code  int
		calls string
	}{
		"nothing written":              {new(string), "", 1, asked},
		"a key":                        {ptr("firewall.interface\n"), "", 0, asked},
		"no valid configuration":       {nil, "", 0, asked},
		"nothing written, but a peer":  {new(string), "state/peer/peer.json", 0, ""},
		"nothing written, a founding":  {new(string), "state/.founded-restore-20261121T140000Z/peer.json", 0, ""},
		"nothing written, a backup":    {new(string), "state/backups/trivet-h1.snap", 1, asked},
		"nothing written, a peer left": {new(string), "state/departure.json", 1, asked},
	} {
		h := newHost(t, true, "trivet")
		if c.keys != nil {
			h.write("keys", *c.keys)
		}
		if c.peer != "" {
			h.touch(c.peer)
		}
		if code, _, calls := h.run("files/configured"); code != c.code || calls != c.calls {
			t.Errorf("peer-configured: %s: exit code %d, want %d, called %q", name, code, c.code, calls)
		}
	}
}

func ptr(text string) *string { return &text }

// TestPurge removes files: what is trivet's own goes, the backups below its directory stay, and a disk that is
// mounted there is not entered.
func TestPurge(t *testing.T) {
	testenv.NeedRoot(t)
	h := newHost(t, false, "getent", "userdel", "groupdel", "chown")
	h.link("rm", "rmdir")
	state := filepath.Join(h.dir, "state")
	gone := []string{"etc/trivet.yaml", "etc/prod.kubeconfig", "run/trivet.sock", "run-hosts/deny", "state/peer/raft/log",
		"state/before-recover-20261121T140000Z/peer.json", "state/.left-1/peer/peer.json", "state/lock",
		"state/departure.json"}
	kept := []string{"state/backups/trivet-h1-20261121T140000Z.snap", "state/shared/trivet-h2-20261121T140000Z.snap"}
	for _, name := range append(gone, kept[0]) {
		h.touch(name)
	}
	shared := filepath.Join(state, "shared")
	if err := errors.Join(os.Mkdir(shared, 0o700), unix.Mount("tmpfs", shared, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(shared, 0); err != nil {
			t.Error(err)
		}
	})
	h.touch(kept[1])
	for range 2 { // a purge may be repeated
		if code, said, _ := h.run("deb/postrm", "purge"); code != 0 || !strings.Contains(said, "/state is kept, for what") {
			t.Errorf("purge-keeps-backups: exit code %d: %s", code, said)
		}
	}
	for _, name := range kept {
		if _, err := os.Stat(filepath.Join(h.dir, name)); err != nil {
			t.Errorf("purge-keeps-backups: %v", err)
		}
	}
	for _, name := range gone {
		if _, err := os.Lstat(filepath.Join(h.dir, name)); err == nil {
			t.Errorf("purge-keeps-backups: left behind: %s", name)
		}
	}
}

// TestPurgeOfAll: a host without backups keeps nothing, not even the directory.
func TestPurgeOfAll(t *testing.T) {
	h := newHost(t, false, "getent", "userdel", "groupdel", "chown")
	h.link("rm", "rmdir")
	h.touch("state/peer/peer.json")
	h.touch("etc/trivet.yaml")
	if code, said, _ := h.run("deb/postrm", "purge"); code != 0 || said != "" {
		t.Errorf("purge-keeps-backups: exit code %d: %s", code, said)
	}
	for _, name := range []string{"state", "etc"} {
		if _, err := os.Lstat(filepath.Join(h.dir, name)); err == nil {
			t.Errorf("purge-keeps-backups: left behind: %s", name)
		}
	}
}
