package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/test/testenv"
)

// site is a host with a fake systemd and a fake dnsmasq.
type site struct {
	t    *testing.T
	root string
	unit service
	load string            // LoadState
	fail map[string]string // "systemctl enable", "dnsmasq" → what it says as it fails
	ran  []string          // commands that change something

	holders map[uint16][]portholder.Holder // of UDP ports
	shared  bool                           // they let others have them
}

// newSite is a Debian with packages dnsmasq and ipxe, dnsmasq as the package
// leaves it.
func newSite(t *testing.T) *site {
	s := &site{t: t, root: t.TempDir(), unit: service{Enabled: true, Active: true}, load: "loaded",
		fail: make(map[string]string)}
	s.put("/etc/dnsmasq.conf", "# nothing\n")
	s.put("/etc/dnsmasq.d/README", "conf-dir\n")
	s.put("/etc/trivet/trivet.yaml", "")
	s.put("/usr/lib/ipxe/undionly.kpxe", "bios")
	s.put("/usr/lib/ipxe/snponly.efi", "efi")
	s.put("/srv/README", "")
	return s
}

func (s *site) put(name, text string) { testenv.PutFile(s.t, s.root, name, text) }

func (s *site) get(name string) string { return testenv.GetFile(s.t, s.root, name) }

func (s *site) host() Host {
	return Host{Root: s.root, Run: s.run, Fetch: func(context.Context, string) error { return errors.New("404") },
		Holders: func(at netip.AddrPort) ([]portholder.Holder, error) { return s.holders[at.Port()], nil },
		Bind: func(_ context.Context, at netip.AddrPort) error {
			if s.shared {
				return nil
			}
			return &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}
		}}
}

func (s *site) run(ctx context.Context, name string, args ...string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	switch name {
	case "journalctl":
		return "one line of the journal\n", nil
	case "dnsmasq":
		text, err := os.ReadFile(strings.TrimPrefix(args[1], "--conf-file="))
		if err != nil || !strings.HasPrefix(string(text), "# h1\n") {
			s.t.Errorf("dnsmasq %v reads %q (%v)", args, text, err)
		}
		if said := s.fail[name]; said != "" {
			return said, errors.New("exit status 1")
		}
		return "dnsmasq: syntax check OK.\n", nil
	}
	verb := args[0]
	if verb == "show" {
		state, active := "disabled", "inactive"
		if s.unit.Enabled {
			state = "enabled"
		}
		if s.unit.Active {
			active = "active"
		}
		return fmt.Sprintf("LoadState=%s\nUnitFileState=%s\nActiveState=%s\n", s.load, state, active), nil
	}
	s.ran = append(s.ran, verb)
	if said := s.fail[name+" "+verb]; said != "" {
		delete(s.fail, name+" "+verb) // once
		return said, errors.New("exit status 1")
	}
	switch verb {
	case "enable":
		s.unit.Enabled = true
	case "disable":
		s.unit.Enabled = false
	case "start", "restart":
		s.unit.Active = true
	case "stop":
		s.unit.Active = false
	}
	return "", nil
}

// tree is everything below the root: what each file holds, and where each link
// leads.
func (s *site) tree() map[string]string {
	s.t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, what := strings.TrimPrefix(path, s.root), "directory"
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			what, err = os.Readlink(path)
		case !d.IsDir():
			var text []byte
			text, err = os.ReadFile(path)
			what = "file " + string(text)
		}
		out[name] = what
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// same compares two trees.
func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range maps.Keys(want) {
		if got[name] != want[name] {
			t.Errorf("%s: %s is %q, was %q", what, name, got[name], want[name])
		}
	}
	for name := range maps.Keys(got) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is left over: %q", what, name, got[name])
		}
	}
}

func plan() Plan {
	return Plan{
		Server: pxe.Server{
			Title: "h1", Interface: "br-pxe", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
			Pools: []pxe.Pool{{First: netip.MustParseAddr("192.0.2.128"), Last: netip.MustParseAddr("192.0.2.169")}},
			Lease: pxe.ShortLease, Root: pxe.Root,
		},
		Boot: pxe.Boot{Callback: "http://192.0.2.10:5050/v1/continue", Kernel: pxe.Kernel, Ramdisk: pxe.Ramdisk},
	}
}

func (s *site) install(p Plan) Report {
	s.t.Helper()
	r, err := s.host().Install(s.t.Context(), p)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) uninstall() Report {
	s.t.Helper()
	r, err := s.host().Uninstall(s.t.Context(), pxe.Root, false)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// text is a report as people read it.
func text(r Report) string {
	var b strings.Builder
	for _, c := range r.Changes {
		fmt.Fprintln(&b, strings.TrimSpace(c.Act+" "+c.Object+" "+c.Note))
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(&b, "warning: "+w)
	}
	return b.String()
}
