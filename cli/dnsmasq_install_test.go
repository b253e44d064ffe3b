package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/pxe/install"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/test/testenv"
)

// bootSite is a directory in the place of a host, with a systemd that does what it
// is told.
type bootSite struct {
	t    *testing.T
	root string
	unit map[string]string // property → value

	holders map[uint16][]portholder.Holder // of UDP ports
}

func newBootSite(t *testing.T) *bootSite {
	t.Helper()
	s := &bootSite{t: t, root: t.TempDir(),
		unit: map[string]string{"LoadState": "loaded", "UnitFileState": "enabled", "ActiveState": "active"}}
	for _, name := range []string{"/etc/dnsmasq.conf", "/etc/dnsmasq.d/README", "/etc/trivet/trivet.yaml",
		"/usr/lib/ipxe/undionly.kpxe", "/usr/lib/ipxe/snponly.efi", "/srv/README"} {
		s.put(name, "x\n")
	}
	return s
}

func (s *bootSite) put(name, text string) { testenv.PutFile(s.t, s.root, name, text) }

func (s *bootSite) systemd(_ context.Context, name string, args ...string) (string, error) {
	if name != "systemctl" {
		return "", nil // dnsmasq takes every file here
	}
	switch args[0] {
	case "show":
		var out string
		for key, value := range s.unit { // order-free: read into a map
			out += key + "=" + value + "\n"
		}
		return out, nil
	case "enable", "disable":
		s.unit["UnitFileState"] = args[0] + "d"
	case "start", "restart":
		s.unit["ActiveState"] = "active"
	case "stop":
		s.unit["ActiveState"] = "inactive"
	}
	return "", nil
}

// run runs dnsmasq-config on the site and returns what a terminal shows.
func (s *bootSite) run(words ...string) string {
	var shown bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &shown, Err: &shown},
		server: &install.Host{Root: s.root, Run: s.systemd,
			Fetch:   func(context.Context, string) error { return errors.New("the server answers 404 Not Found") },
			Holders: func(at netip.AddrPort) ([]portholder.Holder, error) { return s.holders[at.Port()], nil },
			Bind:    func(context.Context, netip.AddrPort) error { return syscall.EADDRINUSE }}}
	args := append([]string{"dnsmasq-config", "--config", "/dev/null", "--name", "h1", "--floating-ip-address",
		"192.0.2.10", "--floating-ip-interface", "br-pxe"}, words...)
	code := p.run(s.t.Context(), args)
	return fmt.Sprintf("$ trivet dnsmasq-config %s\n%s[exit %d]\n\n", strings.Join(words, " "), shown.String(), code)
}

// TestDnsmasqInstall compares what an operator sees with testdata/dnsmasq-install.golden.
func TestDnsmasqInstall(t *testing.T) {
	s := newBootSite(t)
	pools := []string{"--address", "192.0.2.1/24", "--pool", "192.0.2.30-192.0.2.60", "--batch", "30"}
	with := func(words ...string) []string { return append(words, pools...) }
	got := s.run(with("--install")...)
	s.put("/srv/tftp/ironic-agent.kernel", "k")
	s.put("/srv/tftp/ironic-agent.initramfs", "r")
	got += s.run(with("--install")...)
	got += s.run(with("--install", "--kernel", "http://192.0.2.5/ipa.kernel")...)
	conf, err := os.ReadFile(filepath.Join(s.root, pxe.ConfFile))
	if err != nil {
		t.Fatal(err)
	}
	s.put(pxe.ConfFile, string(conf)+"dhcp-host=52:54:00:ab:00:01,192.0.2.99\n")
	got += s.run(with("--install")...)
	got += s.run("--uninstall")
	got += s.run(with("--install", "--force")...)
	got += s.run("--uninstall")
	got += s.run("--uninstall")
	if err := os.RemoveAll(filepath.Join(s.root, "usr")); err != nil {
		t.Fatal(err)
	}
	got += s.run(with("--install")...)
	s.unit["LoadState"] = "not-found"
	got += s.run(with("--install")...)
	s.unit["LoadState"] = "loaded"
	s.holders = map[uint16][]portholder.Holder{67: {{Program: "dhcpd", PID: 812, Unit: "isc-dhcp-server.service"}}}
	got += s.run(with("--install")...)
	s.holders = map[uint16][]portholder.Holder{69: {{Program: "in.tftpd", PID: 7}}}
	got += s.run(with("--install")...)

	const golden = "testdata/dnsmasq-install.golden"
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v):\n%s", golden, err, got)
	}
}

// TestDnsmasqOfAnotherPeer: its part of the subnet is not this host's. To take back needs no peer.
func TestDnsmasqOfAnotherPeer(t *testing.T) {
	s := newBootSite(t)
	for _, mode := range []string{"--install", "--boot-script", "--pool=192.0.2.30-192.0.2.60"} {
		told := s.run(mode, "--address", "192.0.2.1/24", "--peer", "192.0.2.2")
		if !strings.Contains(told, "it is about this host") || !strings.Contains(told, "[exit 2]") {
			t.Errorf("pool-of-another-host: %s:\n%s", mode, told)
		}
	}
	if told := s.run("--uninstall", "--peer", "192.0.2.2"); !strings.Contains(told, "[exit 0]") {
		t.Errorf("pool-of-another-host: --uninstall:\n%s", told)
	}
}

// TestDnsmasqInstallJSON: scripts get the changes, and people the warnings.
func TestDnsmasqInstallJSON(t *testing.T) {
	s := newBootSite(t)
	shown := s.run("-q", "-o", "json", "--install", "--address", "192.0.2.1/24", "--pool", "192.0.2.30-192.0.2.60")
	_, rest, _ := strings.Cut(shown, "\n")
	var r install.Report
	if err := json.NewDecoder(strings.NewReader(rest[strings.Index(rest, "{"):])).Decode(&r); err != nil ||
		len(r.Changes) < 5 || len(r.Warnings) < 2 {
		t.Errorf("%v: %s", err, shown)
	}
}

// TestDnsmasqInstallDry: a dry run shows steps and files as a diff, refuses as the real run
// does, and changes nothing; the steps are those that the real run then tells.
func TestDnsmasqInstallDry(t *testing.T) {
	s := newBootSite(t)
	with := []string{"--address", "192.0.2.1/24", "--pool", "192.0.2.30-192.0.2.60", "--batch", "30"}
	for _, run := range [][]string{append([]string{"--install"}, with...), {"--uninstall"}} {
		before := os.DirFS(s.root)
		was, unit := treeOf(t, before), fmt.Sprint(s.unit)
		told := s.run(append([]string{"--dry-run"}, run...)...)
		if now := treeOf(t, before); now != was || fmt.Sprint(s.unit) != unit {
			t.Errorf("dry-run-changes-nothing: %v: dnsmasq was %s and is %v, the tree was\n%s\nand is\n%s", run, unit, s.unit,
				was, now)
		}
		steps := 0
		for line := range strings.Lines(s.run(run...)) {
			words := strings.Fields(line)
			switch words = append(words, ""); words[0] {
			case "made", "linked", "wrote", "saved", "removed", "restored", "enabled", "started", "restarted", "stopped":
				steps++
				if want := "\n+" + strings.Join(words[:len(words)-1], " ") + "\n"; !strings.Contains(told, want) {
					t.Errorf("dry-run-is-what-is-done: %v: %q is not told:\n%s", run, want, told)
				}
			}
		}
		if steps < 5 || !strings.Contains(told, "\n+++ "+pxe.ConfFile+" (would be)\n") ||
			!strings.HasSuffix(told, "[exit 0]\n\n") {
			t.Errorf("%v: %d steps are told:\n%s", run, steps, told)
		}
	}
	if told := s.run("--uninstall", "--dry-run"); !strings.Contains(told, "steps: nothing would change") {
		t.Errorf("nothing is installed, and told is:\n%s", told)
	}
	if told := s.run("--dry-run"); !strings.Contains(told, "--dry-run belongs to --install or --uninstall") {
		t.Errorf("without a change a dry run is taken:\n%s", told)
	}
	s.put(pxe.ConfFile, "port=0\n")
	_, refused, _ := strings.Cut(s.run(append([]string{"--install"}, with...)...), "\n")
	_, told, _ := strings.Cut(s.run(append([]string{"--install", "--dry-run"}, with...)...), "\n")
	if told != refused || !strings.Contains(told, "[exit 4]") {
		t.Errorf("dry-run-is-refused: the real run says\n%s\nthe dry one\n%s", refused, told)
	}
}

// treeOf is what a directory holds, as text to compare.
func treeOf(t *testing.T, dir fs.FS) string {
	t.Helper()
	var out strings.Builder
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var text []byte
		if d.Type().IsRegular() {
			text, err = fs.ReadFile(dir, name)
		}
		fmt.Fprintf(&out, "%s %v %q\n", name, d.Type(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
