//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Packaged is three hosts as an operator has them: each a Debian with systemd,
// on a management LAN and on one where machines boot, and trivet on it from its
// package.
type Packaged struct {
	*SiteLab
	hosts    []*packagedHost
	floating string // address
	client   *Host  // where machines boot, and neighbours ask
	address  *asker // asks who has the floating IP
	password string // of the API
}

// packagedHost is one of them.
type packagedHost struct {
	*System
	lab  *Packaged
	name string
	at   *Host
}

// newPackaged boots three hosts with nothing on them, beside an Ironic.
func newPackaged(t *testing.T, ironic string) *Packaged {
	root := DebianRoot(t)
	l := NewHosts(t)
	l.net.bridge(PXE)
	p := &Packaged{SiteLab: l.Introspecting(ironic), floating: l.net.site(floatingHost)}
	for i := 1; i <= 3; i++ {
		h := &packagedHost{lab: p, name: fmt.Sprintf("h%d", i), at: l.net.bare(i)}
		h.plug()
		h.System = startSystem(t, root, h.name, "--network-namespace-path=/run/netns/"+l.net.ns(i))
		h.Must("systemctl", "enable", "--now", "nftables") // rules of its own, before which the kernel's are emptied
		p.hosts = append(p.hosts, h)
	}
	p.client = l.net.bootClient()
	p.address = p.client.askFor(t, "the floating IP", p.floating)
	return p
}

func (h *packagedHost) plug() {
	h.at.plug(Site, h.at.Site)
	h.at.plug(PXE, h.at.pxe())
}

// reboot reboots the host. Its kernel forgets rules and addresses, which a
// container's does not by itself.
func (h *packagedHost) reboot() {
	h.t.Helper()
	n := h.at.net
	h.shut()
	for _, l := range []Link{Site, PXE} {
		n.ip(0, "link", "del", h.at.port(l))
	}
	testenv.Must(h.t, removeNamespace(n.ns(h.at.number)))
	h.at = n.bare(h.at.number)
	h.plug()
	h.boot()
}

// packageEnv names the variable with a package that is built already.
const packageEnv = "TRIVET_TEST_PACKAGE"

// buildPackage makes the package of the sources as they are, unless one was named.
func buildPackage(t *testing.T) string {
	t.Helper()
	if deb := os.Getenv(packageEnv); deb != "" {
		return deb
	}
	defer program.Lock(t, filepath.Join(os.TempDir(), "trivet-lab-package.lock"))() // who comes second finds it compiled
	return packageOf(t, filepath.Join("..", ".."))
}

// packageOf builds the package of a tree.
func packageOf(t *testing.T, tree string) string {
	t.Helper()
	dir := t.TempDir()
	build := program.Go("run", "./packaging", "-arch", "amd64", "-out", dir)
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the package: %v\n%s", err, out)
	}
	return theOnly(t, filepath.Join(dir, "trivet_*.deb"))
}

// importerOf is the package of trivet-import that was built with one of trivet.
func importerOf(t *testing.T, deb string) string {
	t.Helper()
	return theOnly(t, filepath.Join(filepath.Dir(deb), "trivet-import_*.deb"))
}

// newer is the same package under a version that sorts after its own.
func newer(t *testing.T, deb string) string {
	t.Helper()
	return versioned(t, deb, strings.TrimSpace(string(mustOutput(t, "dpkg-deb", "-f", deb, "Version")))+"+newer")
}

// versioned is the same package under another version.
func versioned(t *testing.T, deb, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	sh(t, "dpkg-deb", "--raw-extract", deb, dir)
	control := filepath.Join(dir, "DEBIAN", "control")
	text, err := os.ReadFile(control)
	testenv.Must(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Version: ") {
			line = "Version: " + version + "\n"
		}
		lines = append(lines, line)
	}
	testenv.Must(t, os.WriteFile(control, []byte(strings.Join(lines, "")), 0o644))
	path := filepath.Join(filepath.Dir(dir), "versioned.deb")
	sh(t, "dpkg-deb", "--build", "-Zgzip", "-z1", dir, path)
	return path
}

// found does on the hosts what docs/install.md says, and what trivet says next.
func (p *Packaged) found(deb string) {
	p.t.Helper()
	joinLine, shownOnce := regexp.MustCompile(
		`(?ms)^trivet join \S+ --token-file - <<END$.+?^END$|^trivet join \S+ --token \S+$`),
		regexp.MustCompile(`has the password (\S+), shown this once`)
	var paths []string
	for _, h := range p.hosts {
		paths = append(paths, h.Place(deb))
	}
	began := time.Now()
	for i, h := range p.hosts {
		h.Must("dpkg", "-i", paths[i])
	}
	first, others := p.hosts[0], p.hosts[1:]
	said := first.Must("trivet", "init", "--firewall-interface", string(PXE), "--ironic-endpoint",
		"http://"+p.Tap.Door("hosts", p.net.Gateway+":0"),
		"--floating-ip-address", p.floating, "--floating-ip-interface", string(Site))
	join, password := joinLine.FindString(said), shownOnce.FindStringSubmatch(said)
	if join == "" || password == nil {
		p.t.Fatalf("trivet init says no line for the others, or no password:\n%s", said)
	}
	p.password = password[1]
	first.Must("systemctl", "start", "trivet")
	for _, h := range others {
		h.Must("sh", "-c", join)
		h.Must("systemctl", "start", "trivet")
	}
	p.voters(p.hosts...)
	p.t.Logf("from dpkg to three voters: %v", time.Since(began).Round(10*time.Millisecond))
	p.answers()
	p.t.Logf("from dpkg to an answer on the floating IP: %v", time.Since(began).Round(10*time.Millisecond))
}

// serveDHCP makes every host a boot server as docs/install.md says.
func (p *Packaged) serveDHCP(also ...string) {
	p.t.Helper()
	for _, h := range p.hosts {
		h.Must(append([]string{"trivet", "dnsmasq-config", "--install", "--batch", "20"}, also...)...)
	}
}

// voters waits until these hosts, and the leader with them, see as many voters,
// and that all live.
func (p *Packaged) voters(hosts ...*packagedHost) {
	p.t.Helper()
	eventually(p.t, growLimit, fmt.Sprintf("%d voters", len(hosts)), func() error {
		for _, h := range hosts {
			s, err := h.status()
			if err != nil {
				return err
			}
			if s.Leader == "" || s.Quorum.Voters != len(hosts) || s.Quorum.Live != len(hosts) {
				return fmt.Errorf("%s sees leader %q, %+v", h.name, s.Leader, s.Quorum)
			}
		}
		return nil
	})
}

// leader is the host that leads.
func (p *Packaged) leader() *packagedHost {
	p.t.Helper()
	var found *packagedHost
	eventually(p.t, electLimit, "a leader", func() error {
		for _, h := range p.hosts {
			if s, err := h.status(); err == nil && s.Leader == h.name { // another may be down
				found = h
				return nil
			}
		}
		return errors.New("none says that it leads")
	})
	return found
}

// leads makes a host the leader, and waits until it has the floating IP.
func (p *Packaged) leads(h *packagedHost) {
	p.t.Helper()
	if leader := p.leader(); leader != h {
		leader.Must("trivet", "transfer", h.name)
	}
	eventually(p.t, electLimit, h.name+" has the floating IP", func() error {
		if all := p.address.since(time.Now().Add(-calm)); len(all) < 2 || steady(all, h.at.number) < len(all) {
			return fmt.Errorf("of %d times it answered %d", len(all), steady(all, h.at.number))
		}
		return nil
	})
}

// call is a request of the API through the floating IP.
func (p *Packaged) call(method, path string) (httpapi.Reply, error) {
	header := map[string]string{"Authorization": basic("admin", p.password)}
	return httpapi.Ask(&http.Client{Timeout: callLimit, Transport: &http.Transport{DisableKeepAlives: true}},
		p.floating+":5050", method, path, header, nil)
}

// answers waits until the API answers through the floating IP.
func (p *Packaged) answers() {
	p.t.Helper()
	eventually(p.t, growLimit, "an answer on the floating IP",
		func() error { return httpapi.OK(p.call("GET", "/v1/introspection")) })
}

// introspect has a machine introspected, through the floating IP alone.
func (p *Packaged) introspect(ironic *openstack.Ironic, m openstack.Machine) {
	p.t.Helper()
	p.Fleet([]openstack.Machine{m}, p.floating+":5050")
	reply, err := p.call("POST", "/v1/introspection/"+m.UUID)
	if err != nil || reply.Status != http.StatusAccepted {
		p.t.Fatalf("start of an introspection: %d (%v) %s", reply.Status, err, reply.Body)
	}
	r := await(p.t, endLimit, m.Name+" is finished", func() (openstack.Report, error) { return p.report(m) },
		func(r openstack.Report) bool { return r.Finished })
	if r.State != "finished" {
		p.t.Fatalf("introspection failed: %s", r.Reason())
	}
}

// report is what the API tells of a machine through the floating IP.
func (p *Packaged) report(m openstack.Machine) (r openstack.Report, err error) {
	reply, err := p.call("GET", "/v1/introspection/"+m.UUID)
	if err == nil {
		err = reply.Decode(&r)
	}
	return r, err
}
