package install

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/firewall/pxe"
)

// dry is the host for a dry run.
func (s *site) dry() Host {
	h := s.host()
	h.Dry = true
	return h
}

// looks makes a dry run and wants the host as it was.
func (s *site) looks(run func(Host) (Report, error)) (Report, error) {
	s.t.Helper()
	was, unit, ran := s.tree(), s.unit, len(s.ran)
	r, err := run(s.dry())
	same(s.t, "dry-run-changes-nothing", s.tree(), was)
	if s.unit != unit || len(s.ran) != ran {
		s.t.Errorf("dry-run-changes-nothing: it ran %v, dnsmasq was %+v and is %+v", s.ran[ran:], unit, s.unit)
	}
	return r, err
}

// A dry run changes nothing, and tells exactly what the real run does then: the same steps,
// and of each path what stood there and will stand there.
func TestDryRunIsWhatIsDone(t *testing.T) {
	install := func(p Plan) func(*site, Host) (Report, error) {
		return func(s *site, h Host) (Report, error) { return h.Install(s.t.Context(), p) }
	}
	uninstall := func(force bool) func(*site, Host) (Report, error) {
		return func(s *site, h Host) (Report, error) { return h.Uninstall(s.t.Context(), pxe.Root, force) }
	}
	forced, longer := plan(), plan()
	forced.Force, longer.Server.Lease = true, pxe.UsualLease
	longer.Boot.Arguments = "console=ttyS0"
	for name, c := range map[string]struct {
		before func(*site)
		run    func(*site, Host) (Report, error)
	}{
		"fresh":   {func(*site) {}, install(plan())},
		"stopped": {func(s *site) { s.unit = service{} }, install(plan())},
		"again":   {func(s *site) { s.install(plan()) }, install(plan())},
		"another": {func(s *site) { s.install(plan()) }, install(longer)},
		"foreign": {func(s *site) {
			s.put(pxe.ConfFile, "port=0\n")
			s.put("/srv/tftp/trivet.ipxe", "")
		}, install(forced)},
		"taken back": {func(s *site) { s.unit = service{}; s.install(plan()) }, uninstall(false)},
		"with other files": {func(s *site) { s.install(plan()); s.put("/srv/tftp/ironic-agent.kernel", "k") },
			uninstall(false)},
		"restored": {func(s *site) { s.put(pxe.ConfFile, "port=0\n"); s.install(forced) }, uninstall(false)},
		"unrecorded": {func(s *site) {
			s.put(pxe.ConfFile, "port=0\n")
			s.put("/srv/tftp/trivet.ipxe", "by hand\n")
		}, uninstall(true)},
		"nothing to take back": {func(*site) {}, uninstall(false)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			c.before(s)
			said, err := s.looks(func(h Host) (Report, error) { return c.run(s, h) })
			if err != nil {
				t.Fatal(err)
			}
			was := s.tree()
			done, err := c.run(s, s.host())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(said, done) {
				t.Errorf("dry-run-is-what-is-done: told\n%s%+v\ndone\n%s%+v", text(said), said.Edits, text(done), done.Edits)
			}
			same(t, "dry-run-tells-every-path", s.tree(), edited(was, said.Edits))
		})
	}
}

// edited is a tree after what a report says of its paths.
func edited(tree map[string]string, edits []Edit) map[string]string {
	out := maps.Clone(tree)
	for _, e := range edits {
		target, link := strings.CutPrefix(e.After, "link to ")
		switch {
		case e.After == "":
			delete(out, e.Path)
		case e.After == directory().text:
			out[e.Path] = "directory"
		case e.After == (content{exists: true}).shown():
			out[e.Path] = "file "
		case link:
			out[e.Path] = strings.TrimSuffix(target, "\n")
		default:
			out[e.Path] = "file " + e.After
		}
	}
	return out
}

// On a host without /etc/trivet a dry run does not make it, not even to lock it.
func TestDryRunMakesNoDirectory(t *testing.T) {
	s := newSite(t)
	if err := os.RemoveAll(filepath.Join(s.root, "etc/trivet")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.looks(func(h Host) (Report, error) { return h.Install(t.Context(), plan()) }); err != nil {
		t.Error(err)
	}
	if _, err := s.looks(func(h Host) (Report, error) { return h.Uninstall(t.Context(), pxe.Root, false) }); err != nil {
		t.Error(err)
	}
}

// While an installation is at work a dry run is refused, as a second one is.
func TestDryRunWaitsForNoInstallation(t *testing.T) {
	s := newSite(t)
	unlock, err := s.host().lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.dry().Install(t.Context(), plan()); err == nil || !strings.Contains(err.Error(), "is at work") {
		t.Errorf("refused by %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
