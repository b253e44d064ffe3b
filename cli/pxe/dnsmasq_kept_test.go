package pxe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/pxe/install"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/test/testenv"
)

const scriptFile = pxe.Root + "/" + pxe.ScriptName

// keptSite is a host in a directory, with a peer whose members are these.
type keptSite struct {
	t       *testing.T
	dir     string
	members []string
	at      map[string]string // their addresses, if they are no usual ones
	hosts   []doctor.Facts    // what they say
}

func newKeptSite(t *testing.T, members ...string) *keptSite {
	s := &keptSite{t: t, dir: t.TempDir(), members: members}
	s.put("/etc/dnsmasq.d/README", "x")
	s.put("/usr/lib/ipxe/undionly.kpxe", "x")
	s.put("/trivet.yaml",
		"name: h1\napi: {auth_strategy: noauth}\nfloating_ip: {address: 192.0.2.10, interface: br-pxe}\n")
	l, err := net.Listen("unix", filepath.Join(s.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status api.Status
		status.Name = "h1"
		var of any = status
		if strings.HasSuffix(r.URL.Path, "/members") {
			var all []admin.Member
			for i, name := range s.members {
				at := cmp.Or(s.at[name], fmt.Sprintf("192.0.2.%d:7350", i+1))
				all = append(all, admin.Member{Name: name, API: name + ":5050", Address: at})
			}
			of = all
		} else if strings.HasSuffix(r.URL.Path, "/doctor") {
			of = s.hosts
		}
		if err := json.NewEncoder(w).Encode(of); err != nil {
			t.Error(err)
		}
	})
	server := &http.Server{Handler: answer}
	done := make(chan struct{})
	go func() { // ends at Close
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return s
}

func (s *keptSite) put(name, text string) { testenv.PutFile(s.t, s.dir, name, text) }

func (s *keptSite) get(name string) string { return testenv.GetFile(s.t, s.dir, name) }

// try runs dnsmasq-config there, and returns what a terminal shows.
func (s *keptSite) try(words ...string) (string, error) {
	var out bytes.Buffer
	terminal := &term.Terminal{Out: &out, Err: &out, Format: "table"}
	set := options.New(terminal, pflag.NewFlagSet("trivet", pflag.ContinueOnError))
	set.File = filepath.Join(s.dir, "trivet.yaml")
	c := Dnsmasq(terminal, term.OnSocket(filepath.Join(s.dir, "s")), set, &install.Host{Root: s.dir,
		Run: func(_ context.Context, _ string, args ...string) (string, error) {
			return map[string]string{"show": "LoadState=loaded\nUnitFileState=enabled\nActiveState=active\n"}[args[0]], nil
		},
		Fetch:   func(context.Context, string) error { return nil },
		Holders: func(netip.AddrPort) ([]portholder.Holder, error) { return nil, nil },
		Bind:    func(context.Context, netip.AddrPort) error { return syscall.EADDRINUSE },
	})
	c.SetArgs(words)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(s.t.Context())
	return out.String(), err
}

func (s *keptSite) run(words ...string) string {
	s.t.Helper()
	told, err := s.try(words...)
	if err != nil {
		s.t.Fatalf("kept-flags: %v: %v\n%s", words, err, told)
	}
	return told
}

// has wants lines of the files, and those with "!" not.
func (s *keptSite) has(what string, lines ...string) {
	s.t.Helper()
	text := s.get(pxe.ConfFile) + s.get(scriptFile)
	for _, line := range lines {
		if want, not := strings.CutPrefix(line, "!"); strings.Contains(text, want) == not {
			s.t.Errorf("kept-flags: %s: %q in\n%s", what, line, text)
		}
	}
}

const (
	here   = "192.0.2.1/24"
	pool   = "192.0.2.30-192.0.2.60"
	byHand = "http://192.0.2.10:5050/v1/continue"
)

// TestInstallKeepsItsFlags: the line as the pages print it, repeated, changes nothing; each flag can be said otherwise.
func TestInstallKeepsItsFlags(t *testing.T) {
	s := newKeptSite(t, "h1", "h2", "h3")
	s.run("--install", "--address", here, "--pool", pool, "--router", "192.0.2.254", "--batch", "30",
		"--lease-time", "1h", "--kernel-args", "ipa-insecure=1 console=ttyS0", "--kernel", "k", "--callback-url", byHand)
	all := []string{"option:router,192.0.2.254", "192.0.2.30,192.0.2.60,255.255.255.0,3600s", "tftp-max=50",
		" ipa-insecure=1 console=ttyS0 |", "timeout 30000 k ", "callback-url=" + byHand + " "}
	was := s.get(pxe.ConfFile) + s.get(scriptFile) + s.get(install.RecordFile)
	s.run("--install", "--dry-run", "--router", "")
	told := s.run("--install")
	if now := s.get(pxe.ConfFile) + s.get(scriptFile) + s.get(install.RecordFile); now != was {
		t.Errorf("kept-flags: repeated, it makes\n%s\nof\n%s", now, was)
	}
	s.has("repeated", all...)
	if want := "as at the last --install here: --pool " + pool + " --batch 30 --address " + here +
		" --router 192.0.2.254 --lease-time 1h0m0s --kernel k --kernel-args 'ipa-insecure=1 console=ttyS0' --callback-url " +
		byHand + "; "; !strings.Contains(told, want) {
		t.Errorf("kept-flags: %q is not told:\n%s", want, told)
	}
	if told := s.run("--boot-script"); !strings.HasSuffix(told, s.get(scriptFile)) {
		t.Errorf("kept-flags: printed is\n%s", told)
	}
	s.run("--install", "--router", "", "--kernel", "")
	s.run("--install")
	s.has("two are taken back", append(all[1:4:4], "!192.0.2.254", "timeout 30000 ironic-agent.kernel ", all[5])...)
	s.run("--install", "--pool", "", "--callback-url=", "--lease-time", "0")
	s.has("more are taken back", "part 1 of 3 of the subnet", ",900s", all[3], "192.0.2.10:5055/")
	s.run("--install", "--forget", "--address", here)
	if s.has("forgotten", "!console=ttyS0", "tftp-max=200"); strings.Contains(s.get(install.RecordFile), "kernel-args") {
		t.Error("kept-flags: what is forgotten is kept")
	}
	s.run("--uninstall")
	s.run("--install", "--address", here)
	s.has("after an uninstallation", "tftp-max=200")
}

// TestInstallKeepsHowManyPeers: more of them have joined since, and none is missing.
func TestInstallKeepsHowManyPeers(t *testing.T) {
	s := newKeptSite(t, "h1", "h2")
	s.run("--install", "--address", here, "--peers", "2")
	s.run("--install")
	s.has("two", "part 1 of 2")
	s.members = append(s.members, "h3")
	s.run("--install")
	s.has("a third", "part 1 of 3")
	s.members = s.members[:1]
	if told, err := s.try("--install"); err == nil {
		t.Errorf("kept-flags: one of two is away:\n%s", told)
	}
}

// TestCallbackOfTheFormerVersion: hosts that go back to v0.2.0 answer ramdisks at api.listen alone, and each other
// address is asked before it.
func TestCallbackOfTheFormerVersion(t *testing.T) {
	s := newKeptSite(t, "h1", "h2")
	const first = "callback-url=http://192.0.2.10:5055/v1/continue,http://h1:5055/v1/continue,http://h2:5055/v1/continue"
	if told := s.run("--boot-script"); !strings.Contains(told, first+","+byHand+" ") ||
		!strings.Contains(told, "given 4 URLs") || !strings.Contains(told, "--callback-url "+byHand+"\n") {
		t.Errorf("way-back: the ramdisk is told\n%s", told)
	}
	s.put("/trivet.yaml", s.get("/trivet.yaml")+"inspection: {continue_inspection: relay}\n")
	if told := s.run("--boot-script"); !strings.Contains(told, ","+byHand+"_inspection ") {
		t.Errorf("way-back: for Ironic the ramdisk is told\n%s", told)
	}
}

// before is a host as an earlier version left it, which has recorded no flags.
func (s *keptSite) before(title, ranges, comment, callback string) {
	s.put(install.RecordFile, `{"before":{"enabled":true,"active":true},"dirs":null,"links":{},"scripts":["`+scriptFile+
		`"],"saved":null}`)
	s.put(pxe.ConfFile, pxe.Sign("# dnsmasq for h1, by 'trivet dnsmasq-config'.\n# "+title+"\n\nport=0\n"+
		"tftp-root=/srv/tftp\ntftp-max=200\n"+ranges))
	s.put(scriptFile, pxe.Sign("#!ipxe\n# The inspection ramdisk: it inspects the machine and sends the result to the\n"+
		comment+"kernel --timeout 30000 ironic-agent.kernel initrd=ramdisk ipa-inspection-callback-url="+callback+
		" BOOTIF=${mac} nofb nomodeset systemd.journald.forward_to_console=yes ipa-insecure=1 || goto failed\n"+
		"initrd --timeout 30000 --name ramdisk http://192.0.2.5/r || goto failed\n"))
}

const (
	formerScript = "# floating IP, which the leading peer has.\n"
	thisScript   = "# first of these URLs that lets it connect.\n"
)

// TestInstallReadsFlagsOfFiles: v0.2.0 and earlier builds recorded none.
func TestInstallReadsFlagsOfFiles(t *testing.T) {
	for _, c := range []struct{ comment, was, want string }{
		{formerScript, byHand, "http://192.0.2.10:5055/v1/continue,"},
		{formerScript, "http://192.0.2.9/v1/continue", "http://192.0.2.9/v1/continue "},
		{thisScript, byHand, byHand + " "},
		{thisScript, "http://192.0.2.10:5055/v1/continue,http://gone:5055/v1/continue", byHand + " "},
	} {
		s := newKeptSite(t, "h1", "h2", "h3")
		s.before(poolsByHand, "dhcp-range=192.0.2.30,192.0.2.60,255.255.255.0,3600s\n"+
			"dhcp-option=option:router,192.0.2.254\n", c.comment, c.was)
		told := s.run("--install", "--address", here)
		s.has(c.was, "option:router,192.0.2.254", "192.0.2.30,192.0.2.60,255.255.255.0,3600s", "=yes ipa-insecure=1 |",
			"ramdisk http://192.0.2.5/r ", c.want, "!//gone", "tftp-max=200")
		if !strings.Contains(told, " --router 192.0.2.254 ") {
			t.Errorf("kept-flags: not told:\n%s", told)
		}
		s.run("--install")
		s.has("repeated", "option:router,192.0.2.254")
	}
}

// TestInstallDoesNotGuess: files do not tell --reserve, and the pools of the other hosts rest on it.
func TestInstallDoesNotGuess(t *testing.T) {
	s := newKeptSite(t, "h1", "h2", "h3")
	s.before("x", "dhcp-range=192.0.2.16,192.0.2.94,255.255.255.0,900s\n", thisScript, byHand)
	was := s.get(pxe.ConfFile)
	told, err := s.try("--install", "--address", here)
	var f *term.Failure
	if !errors.As(err, &f) || term.ExitOf(err) != term.ExitConflict || !strings.Contains(f.Hint, "--reserve N") ||
		s.get(pxe.ConfFile) != was {
		t.Fatalf("kept-flags: %v:\n%s", err, told)
	}
	s.run("--install", "--address", here, "--reserve", "16")
	s.run("--install")
	s.has("reserved", "192.0.2.16,192.0.2.94,")
}
