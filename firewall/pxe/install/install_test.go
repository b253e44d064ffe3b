package install

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestInstall installs, repeats it, and takes it back, on hosts whose dnsmasq ran
// before and did not.
func TestInstall(t *testing.T) {
	for _, before := range []service{{true, true}, {false, false}, {true, false}, {false, true}} {
		t.Run(fmt.Sprintf("%+v", before), func(t *testing.T) {
			s := newSite(t)
			s.unit = before
			was := s.tree()
			r := s.install(plan())
			wrote := text(r)
			for _, want := range []string{
				"made /srv/tftp\n", "linked /srv/tftp/undionly.kpxe to /usr/lib/ipxe/undionly.kpxe\n",
				"linked /srv/tftp/snponly.efi to /usr/lib/ipxe/snponly.efi\n",
				"wrote /srv/tftp/trivet.ipxe\n", "wrote /etc/dnsmasq.d/trivet.conf\n",
				"left out /srv/tftp/snponly-arm64.efi for UEFI on 64-bit ARM: it is missing; package ipxe-bootimgs-aarch64",
				"warning: machines would not boot: /srv/tftp/ironic-agent.kernel is missing",
				"/srv/tftp/ironic-agent.initramfs is missing",
			} {
				if !strings.Contains(wrote, want) {
					t.Errorf("the report lacks %q:\n%s", want, wrote)
				}
			}
			if s.unit != (service{true, true}) {
				t.Errorf("dnsmasq is %+v", s.unit)
			}
			conf := s.get(pxe.ConfFile)
			if _, intact := pxe.Check(conf); !intact || strings.Contains(conf, ",snponly-arm64.efi") ||
				!strings.Contains(conf, ",snponly.efi\n") || !strings.Contains(conf, "\nbind-dynamic\n") {
				t.Errorf("%s:\n%s", pxe.ConfFile, conf)
			}
			if after := s.tree(); after["/etc/dnsmasq.d/.trivet.conf.new"] != "" {
				t.Error("a temporary file is left")
			}
			s.repeats()
			s.uninstall()
			same(t, "uninstalled", s.tree(), was)
			if s.unit != before {
				t.Errorf("dnsmasq was %+v and is %+v", before, s.unit)
			}
			if r := s.uninstall(); len(r.Changes)+len(r.Warnings) > 0 {
				t.Errorf("nothing is installed, and yet:\n%s", text(r))
			}
		})
	}
}

// repeats installs again, which changes nothing.
func (s *site) repeats() {
	s.t.Helper()
	now := s.tree()
	s.ran = nil
	for _, c := range s.install(plan()).Changes {
		if c.Act != "unchanged" && c.Act != "left out" {
			s.t.Errorf("the second installation %s %s", c.Act, c.Object)
		}
	}
	same(s.t, "installed again", s.tree(), now)
	if len(s.ran) > 0 {
		s.t.Errorf("the second installation ran %v", s.ran)
	}
}

// TestInstallUpdates: another lease time is another file and a restart, other
// pools are warned of, another script needs no restart.
func TestInstallUpdates(t *testing.T) {
	s := newSite(t)
	was := s.tree()
	s.put("/srv/tftp/ironic-agent.kernel", "k")
	s.put("/srv/tftp/ironic-agent.initramfs", "r")
	s.install(plan())
	p := plan()
	p.Server.Lease, s.ran = pxe.UsualLease, nil
	if r := s.install(p); !slices.Equal(s.ran, []string{"restart"}) || len(r.Warnings) > 0 {
		t.Errorf("another lease time ran %v:\n%s", s.ran, text(r))
	}
	p.Server.Pools[0].Last, s.ran = netip.MustParseAddr("192.0.2.190"), nil
	if r := s.install(p); !slices.Equal(s.ran, []string{"restart"}) ||
		!strings.Contains(text(r), "warning: the pools changed: ") || !strings.Contains(text(r), " for 30m0s") {
		t.Errorf("other pools ran %v:\n%s", s.ran, text(r))
	}
	p.Boot.Arguments, s.ran = "console=ttyS0", nil
	if r := s.install(p); len(s.ran) > 0 || !strings.Contains(text(r), "wrote /srv/tftp/trivet.ipxe") {
		t.Errorf("another script ran %v:\n%s", s.ran, text(r))
	}
	s.put("/srv/tftp/snponly-arm64.efi", "arm") // by hand: kept, and in the configuration
	if s.install(p); !strings.Contains(s.get(pxe.ConfFile), ",snponly-arm64.efi\n") {
		t.Error("a loader that was added is not offered")
	}
	s.uninstall()
	after := s.tree()
	for _, name := range []string{"/srv/tftp", "/srv/tftp/ironic-agent.kernel", "/srv/tftp/ironic-agent.initramfs",
		"/srv/tftp/snponly-arm64.efi"} {
		if after[name] == "" {
			t.Errorf("%s, which the operator put there, is gone", name)
		}
		delete(after, name)
	}
	same(t, "uninstalled", after, was)
}

// TestInstallRefuses: nothing is changed where a package is missing, dnsmasq does
// not take the file, or a file was changed by hand.
func TestInstallRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*site, *Plan)
		want  string
		is    error
	}{
		"no dnsmasq": {func(s *site, _ *Plan) { s.load = "not-found" }, "dnsmasq.service; install package dnsmasq",
			ErrMissing},
		"masked": {func(s *site, _ *Plan) { s.load = "masked" }, "systemctl unmask dnsmasq", nil},
		"no iPXE": {func(s *site, _ *Plan) { os.RemoveAll(filepath.Join(s.root, "usr")) },
			"iPXE's programs undionly.kpxe, snponly.efi, snponly-arm64.efi, in /srv/tftp as well as in /usr/lib/ipxe",
			ErrMissing},
		"empty loader": {func(s *site, _ *Plan) { s.put("/srv/tftp/undionly.kpxe", "") },
			"/srv/tftp/undionly.kpxe is there and is no loader", nil},
		"old dnsmasq": {func(s *site, _ *Plan) { s.fail["dnsmasq"] = "dnsmasq: bad option at line 26" },
			"2.81 or newer): dnsmasq --test", nil},
		"no directory": {func(s *site, _ *Plan) { os.RemoveAll(filepath.Join(s.root, "etc/dnsmasq.d")) },
			"list /etc/dnsmasq.d", nil},
		"no pool":     {func(_ *site, p *Plan) { p.Server.Pools = nil }, "no address is left", nil},
		"no callback": {func(_ *site, p *Plan) { p.Boot.Callback = "x" }, "invalid callback URL", nil},
		"foreign file": {func(s *site, _ *Plan) { s.put(pxe.ConfFile, "port=0\n") },
			"not written by trivet: /etc/dnsmasq.d/trivet.conf", nil},
		"foreign files": {func(s *site, _ *Plan) { s.put(pxe.ConfFile, "a"); s.put("/srv/tftp/trivet.ipxe", "b") },
			"/etc/dnsmasq.d/trivet.conf, /srv/tftp/trivet.ipxe", nil},
		"no room to save": {func(s *site, p *Plan) {
			s.put(pxe.ConfFile, "a")
			s.put(pxe.ConfFile+"~", "b")
			p.Force = true
		}, "which exists: move that away", nil},
		"damaged record": {func(s *site, _ *Plan) { s.put(RecordFile, "{") }, "read /etc/trivet/dnsmasq-install.json", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newSite(t), plan()
			c.spoil(s, &p)
			was := s.tree()
			_, dry := s.looks(func(h Host) (Report, error) { return h.Install(t.Context(), p) })
			if dry == nil || !strings.Contains(dry.Error(), c.want) || c.is != nil && !errors.Is(dry, c.is) {
				t.Errorf("dry-run-is-refused: %v, want %q", dry, c.want)
			}
			r, err := s.host().Install(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(s.ran)+len(r.Changes) > 0 {
				t.Errorf("it ran %v and reports %v", s.ran, r.Changes)
			}
			same(t, "refused", s.tree(), was)
		})
	}
}

// TestInstallFails makes every step fail, in turn, and wants the host as it was
// and the step named.
func TestInstallFails(t *testing.T) {
	obstacle := func(path string) func(*site) { return func(s *site) { s.put(path+"/in-the-way", "") } }
	refuse := func(verb string) func(*site) {
		return func(s *site) { s.fail["systemctl "+verb] = "Job for dnsmasq.service failed." }
	}
	stopped := func(spoil func(*site)) func(*site) {
		return func(s *site) { s.unit = service{}; spoil(s) }
	}
	for name, c := range map[string]struct {
		spoil func(*site)
		want  string
	}{
		"test copy": {obstacle("/etc/dnsmasq.d/.trivet.conf.new"), "write /etc/dnsmasq.d/.trivet.conf.new"},
		"record":    {obstacle("/etc/trivet/.dnsmasq-install.json.new"), "write /etc/trivet/.dnsmasq-install.json.new"},
		"directory": {func(s *site) { os.RemoveAll(filepath.Join(s.root, "srv")); s.put("/srv", "a file") }, "srv"},
		"script":    {obstacle("/srv/tftp/.trivet.ipxe.new"), "write /srv/tftp/.trivet.ipxe.new"},
		"enable": {stopped(refuse("enable")),
			"systemctl enable dnsmasq.service: exit status 1: Job for dnsmasq.service failed."},
		"start":   {stopped(refuse("start")), "its journal: one line of the journal"},
		"restart": {refuse("restart"), "systemctl restart dnsmasq.service"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			c.spoil(s)
			was, unit := s.tree(), s.unit
			_, err := s.host().Install(t.Context(), plan())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			same(t, "failed", s.tree(), was)
			if s.unit != unit {
				t.Errorf("dnsmasq was %+v and is %+v", unit, s.unit)
			}
		})
	}
}

// TestUninstallFails: what was installed stays installed, and dnsmasq runs.
func TestUninstallFails(t *testing.T) {
	for _, verb := range []string{"stop", "disable"} {
		s := newSite(t)
		s.unit = service{}
		s.install(plan())
		was, unit := s.tree(), s.unit
		s.fail["systemctl "+verb] = "no"
		if _, err := s.host().Uninstall(t.Context(), pxe.Root, false); err == nil ||
			!strings.Contains(err.Error(), "systemctl "+verb) {
			t.Errorf("%s fails, and Uninstall says %v", verb, err)
		}
		same(t, verb+" failed", s.tree(), was)
		if s.unit != unit {
			t.Errorf("%s failed: dnsmasq was %+v and is %+v", verb, unit, s.unit)
		}
	}
}

// TestForce replaces what was changed by hand, once kept under another name, and
// Uninstall puts that back.
func TestForce(t *testing.T) {
	s := newSite(t)
	s.put(pxe.ConfFile, "port=0\n")
	was := s.tree()
	p := plan()
	p.Force = true
	if r := s.install(p); !strings.Contains(text(r), "saved /etc/dnsmasq.d/trivet.conf as /etc/dnsmasq.d/trivet.conf~\n") {
		t.Errorf("the report is\n%s", text(r))
	}
	s.put(pxe.ConfFile, s.get(pxe.ConfFile)+"dhcp-host=x\n")
	var changed *ChangedError
	if _, err := s.host().Install(t.Context(), plan()); !errors.As(err, &changed) ||
		!slices.Equal(changed.Files, []string{pxe.ConfFile}) {
		t.Errorf("a changed file: %v", err)
	}
	if _, err := s.host().Uninstall(t.Context(), pxe.Root, false); !errors.As(err, &changed) {
		t.Errorf("a changed file is removed: %v", err)
	}
	if s.install(p); s.get(pxe.ConfFile+"~") != "port=0\n" {
		t.Error("what was there first is lost")
	}
	s.uninstall()
	same(t, "uninstalled", s.tree(), was)
}

// TestSavedFileIsGone: what was there first and is gone is named, and all else is uninstalled.
func TestSavedFileIsGone(t *testing.T) {
	s := newSite(t)
	was := s.tree()
	s.put(pxe.ConfFile, "port=0\n")
	p := plan()
	p.Force = true
	s.install(p)
	if err := os.Remove(filepath.Join(s.root, pxe.ConfFile+"~")); err != nil {
		t.Fatal(err)
	}
	r, err := s.host().Uninstall(t.Context(), pxe.Root, false)
	if err != nil || !strings.Contains(text(r), pxe.ConfFile+", which was there before, cannot be restored") {
		t.Errorf("the report is\n%s%v", text(r), err)
	}
	same(t, "uninstalled", s.tree(), was)
}

// TestAnotherRoot: what was installed into two TFTP roots is taken out of both.
func TestAnotherRoot(t *testing.T) {
	s := newSite(t)
	was := s.tree()
	s.install(plan())
	p := plan()
	p.Server.Root = "/var/lib/tftpboot"
	s.install(p)
	s.uninstall()
	same(t, "uninstalled", s.tree(), was)
}

// TestLostRecord: a package that was purged took the record along. What the next
// installation finds of the earlier one is taken back with it.
func TestLostRecord(t *testing.T) {
	s := newSite(t)
	was := s.tree()
	s.install(plan())
	if err := os.Remove(filepath.Join(s.root, RecordFile)); err != nil {
		t.Fatal(err)
	}
	s.install(plan())
	s.uninstall()
	after := s.tree()
	if after["/srv/tftp"] != "directory" {
		t.Error("a directory that was there is gone")
	}
	delete(after, "/srv/tftp")
	same(t, "uninstalled", after, was)
}

// TestEditsAreNotRestored: an edit of what --install wrote is replaced with --force,
// and is gone after an uninstallation. It would be a DHCP server without a filter.
func TestEditsAreNotRestored(t *testing.T) {
	s := newSite(t)
	was := s.tree()
	s.install(plan())
	s.put(pxe.ConfFile, s.get(pxe.ConfFile)+"dhcp-host=x\n")
	if _, err := s.host().Uninstall(t.Context(), pxe.Root, true); err != nil {
		t.Fatal(err)
	}
	same(t, "uninstalled with --force", s.tree(), was)
	s.install(plan())
	s.put(pxe.ConfFile, s.get(pxe.ConfFile)+"dhcp-host=x\n")
	p := plan()
	p.Force = true
	s.install(p)
	s.uninstall()
	same(t, "uninstalled", s.tree(), was)
}

// TestUninstallPrinted removes files that were printed and redirected: what dnsmasq
// was before is not known, and it must not go on as an open DNS server.
func TestUninstallPrinted(t *testing.T) {
	s := newSite(t)
	conf, err := plan().Server.Config()
	if err != nil {
		t.Fatal(err)
	}
	s.put(pxe.ConfFile, conf)
	r := s.uninstall()
	if s.unit != (service{}) || !strings.Contains(text(r), "removed /etc/dnsmasq.d/trivet.conf\n") ||
		!strings.Contains(text(r), "warning: what dnsmasq was before is not recorded") {
		t.Errorf("dnsmasq is %+v:\n%s", s.unit, text(r))
	}
}

// TestBindInterfaces follows the file of Fedora and RHEL, which says
// bind-interfaces: dnsmasq refuses to start with both.
func TestBindInterfaces(t *testing.T) {
	s := newSite(t)
	os.RemoveAll(filepath.Join(s.root, "usr/lib/ipxe"))
	s.put("/usr/share/ipxe/undionly.kpxe", "bios")
	s.put("/usr/share/ipxe/ipxe-snponly-x86_64.efi", "efi")
	s.put("/usr/share/ipxe/arm64-efi/snponly.efi", "arm")
	s.put("/etc/dnsmasq.conf", "interface=lo\nbind-interfaces\n")
	r := s.install(plan())
	conf := s.get(pxe.ConfFile)
	if !strings.Contains(conf, "\nbind-interfaces\n") || strings.Contains(conf, "bind-dynamic") ||
		!strings.Contains(conf, ",snponly-arm64.efi\n") {
		t.Errorf("%s:\n%s", text(r), conf)
	}
	if !strings.Contains(text(r), "linked /srv/tftp/snponly.efi to /usr/share/ipxe/ipxe-snponly-x86_64.efi\n") {
		t.Error(text(r))
	}
}

// TestRamdiskURLs: a URL that cannot be fetched is told, a file in the TFTP root
// is looked at.
func TestRamdiskURLs(t *testing.T) {
	s, p := newSite(t), plan()
	p.Boot.Kernel = "http://files/kernel"
	s.put("/srv/tftp/ironic-agent.initramfs", "r")
	got := text(s.install(p))
	if !strings.Contains(got, "warning: machines would not boot: fetch http://files/kernel: 404\n") ||
		strings.Contains(got, "initramfs is missing") {
		t.Error(got)
	}
}

// TestOneAtATime refuses a second installation meanwhile.
func TestOneAtATime(t *testing.T) {
	s := newSite(t)
	unlock, err := s.host().lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.host().Install(t.Context(), plan()); err == nil ||
		!strings.Contains(err.Error(), "another 'trivet dnsmasq-config' is at work") {
		t.Errorf("a second one: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	s.install(plan())
}

// TestInterrupted: Ctrl-C in the middle is a failure like others, and what is
// undone is undone although the context has ended.
func TestInterrupted(t *testing.T) {
	s := newSite(t)
	was := s.tree()
	ctx, cancel := context.WithCancel(t.Context())
	h := s.host()
	h.Run = func(ctx context.Context, name string, args ...string) (string, error) {
		if args[0] == "restart" {
			cancel()
		}
		return s.run(ctx, name, args...)
	}
	if _, err := h.Install(ctx, plan()); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	same(t, "interrupted", s.tree(), was)
	if s.unit != (service{true, true}) {
		t.Errorf("dnsmasq is %+v", s.unit)
	}
	deadline, done := context.WithTimeout(context.Background(), testwait.Bound(time.Minute))
	defer done()
	if _, err := s.host().Install(deadline, plan()); err != nil {
		t.Error(err)
	}
}

// TestPoolsAreWhatIsGranted: neither the tag of a range nor its lease time is a pool.
func TestPoolsAreWhatIsGranted(t *testing.T) {
	before, tagged, other := "dhcp-range=192.0.2.1,192.0.2.9,255.255.255.0,900s\n",
		"dhcp-range=set:subnet1,192.0.2.1,192.0.2.9,255.255.255.0,1800s\n",
		"dhcp-range=set:subnet1,192.0.2.2,192.0.2.9,255.255.255.0,900s\n"
	pools := func(text string) string { return fmt.Sprint(pxe.ReadConfig(text).Pools) }
	if pools(before) != pools(tagged) || pools(before) == pools(other) {
		t.Errorf("pools %q, %q and %q", pools(before), pools(tagged), pools(other))
	}
}
