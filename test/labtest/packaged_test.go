//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestThreePackagedHosts takes three hosts from nothing to a cluster that
// introspects, as docs/install.md says, and then through what hosts go through.
func TestThreePackagedHosts(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "mmdebstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "xz")
	deb := buildPackage(t)
	ironic := openstack.StartIronic(t, 100)
	machines := ironic.Enroll(0, 1)
	p := newPackaged(t, ironic.Addr)
	p.found(deb)
	p.serveDHCP()
	p.introspect(ironic, machines[0])
	checkInventory(t, ironic, machines)
	for _, h := range longer([]*packagedHost{p.leader()}, p.hosts) { // a minute, and three with all of them
		p.endures(h)
	}
	p.staysShut(p.hosts[0])
	p.upgrades(newer(t, deb))
	p.leaves(p.leader())
}

// TestUpgradeOfPackages takes three hosts from the package of the last release to the
// present one, back, and there again, and finalizes that, with a boot server on each as
// both releases say. What was introspected on the way is there at each stop.
func TestUpgradeOfPackages(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "mmdebstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "xz")
	deb := buildPackage(t)
	last, tag := lastPackage(t)
	t.Logf("from %s", tag)
	ironic := openstack.StartIronic(t, 100)
	machines := ironic.Enroll(0, 5)
	p := newPackaged(t, ironic.Addr)
	p.found(last)
	for _, h := range p.hosts { // docs/install.md of v0.1.0
		h.Must("sh", "-c", "mkdir -p /srv/tftp && trivet dnsmasq-config > /etc/dnsmasq.d/trivet.conf &&"+
			"trivet dnsmasq-config --boot-script > /srv/tftp/trivet.ipxe && systemctl restart dnsmasq")
	}
	p.introspect(ironic, machines[0])
	for n, next := range []string{deb, last, deb} {
		p.upgrades(next)
		p.kept(machines[:n+1])
		if err := p.announced(fsm.Version); err == nil {
			t.Error("the log version rose without 'trivet upgrade finalize'")
		}
		p.introspect(ironic, machines[n+1])
	}
	p.hosts[0].Must("trivet", "upgrade", "finalize")
	eventually(t, electLimit, fmt.Sprintf("log version %d", fsm.Version), func() error { return p.announced(fsm.Version) })
	p.serveDHCP("--force") // as CHANGELOG.md says
	p.kept(machines[:4])
	checkInventory(t, ironic, machines[:4])
	p.introspect(ironic, machines[4])
	p.endures(p.leader())
	said, err := p.hosts[0].Try("trivet", "doctor") // of all hosts; none has a ramdisk
	if err == nil || !strings.Contains(said, "ironic-agent") {
		t.Errorf("doctor after the upgrade misses that there is no ramdisk: %v: %s", err, said)
	}
	for line := range strings.Lines(said) {
		if finding := strings.HasPrefix(line, "error") ||
			strings.HasPrefix(line, "warning"); finding && !strings.Contains(line, "ironic-agent") {
			t.Errorf("doctor after the upgrade: %s", line)
		}
	}
}

// kept wants each machine finished without an error, as the API tells through the floating IP.
func (p *Packaged) kept(machines []openstack.Machine) {
	p.t.Helper()
	for _, m := range machines {
		if r, err := p.report(m); err != nil || r.State != "finished" {
			p.t.Errorf("kept: the introspection of %s is %q (%v): %s", m.Name, r.State, err, r.Reason())
		}
	}
}

// announced is nil if every member has announced a log version.
func (p *Packaged) announced(version int) error {
	p.t.Helper()
	var members []admin.Member
	if err := json.Unmarshal([]byte(p.hosts[0].Must("trivet", "members", "-o", "json")), &members); err != nil {
		return err
	}
	for _, m := range members {
		if m.Version != version {
			return fmt.Errorf("%s has %d", m.Name, m.Version)
		}
	}
	return nil
}

// endures stops and kills the peer of a host that leads, takes its rules away, and
// reboots it: the floating IP answers, and all
// three vote again.
func (p *Packaged) endures(h *packagedHost) {
	p.t.Helper()
	for _, trouble := range []struct {
		name string
		do   func()
	}{
		{"stop", func() { h.Must("systemctl", "stop", "trivet"); p.answers(); h.Must("systemctl", "start", "trivet") }},
		{"kill", func() { h.Must("systemctl", "kill", "--signal=KILL", "--kill-who=main", "trivet") }},
		{"flush of the rules", func() { h.Must("systemctl", "reload", "nftables") }},
		{"reboot", h.reboot},
	} {
		p.leads(h)
		began := time.Now()
		trouble.do()
		p.answers()
		p.voters(p.hosts...)
		p.t.Logf("%s of %s, which led: three voters after %v; the longest time that nobody had the floating IP: %v",
			trouble.name, h.name,
			time.Since(began).Round(10*time.Millisecond), longest(p.address.since(began)))
	}
}

// longest is the longest time without an answer.
func longest(all []asked) (gap time.Duration) {
	var since time.Time
	for _, one := range all {
		if len(one.by) > 0 || since.IsZero() {
			since = one.sent
		}
		gap = max(gap, one.sent.Sub(since))
	}
	return gap.Round(time.Millisecond)
}

// staysShut reboots a host whose peer is not to start: it answers no machine,
// whatever its DHCP server does, also when somebody flushes the rules.
func (p *Packaged) staysShut(h *packagedHost) {
	p.t.Helper()
	mac := hardware(p.t, "52:54:00:ee:00:01")
	offer := p.client.ask(p.t, "an offer", PXE, unix.ETH_P_IP, discover{mac: mac, family: 77})
	h.Must("systemctl", "mask", "trivet.service")
	began := time.Now()
	h.reboot()
	active := func(unit, state string) {
		p.t.Helper()
		if got := h.Property(unit, "ActiveState"); got != state {
			p.t.Errorf("%s of %s is %s, want %s", unit, h.name, got, state)
		}
	}
	active("dnsmasq.service", "active")
	active("trivet.service", "inactive")
	active("trivet-firewall.service", "active")
	asks := func(n int) {
		p.t.Helper()
		from := time.Now()
		eventually(p.t, electLimit, "some questions",
			func() error { return atLeast(int64(len(offer.since(from))), int64(n)) })
	}
	asks(60)
	never := func(what string) {
		p.t.Helper()
		all := offer.since(began)
		if n := answered(all); n > 0 {
			p.t.Errorf("%s: %d of %d times there was an offer", what, n, len(all))
		}
		p.t.Logf("%s: asked %d times", what, len(all))
	}
	never("boot without a peer")
	for _, verb := range []string{"start", "reload", "restart", "stop"} {
		h.Must("systemctl", verb, "nftables.service")
		eventually(p.t, electLimit, "the filter is back after nftables.service's "+verb, func() error {
			if said, err := h.Try("nft", "list", "tables"); err != nil || !strings.Contains(said, "trivet_pxe") {
				return fmt.Errorf("%q (%v)", said, err)
			}
			return nil
		})
		began := time.Now()
		asks(20)
		if n := answered(offer.since(began)); n > 0 {
			p.t.Errorf("after nftables.service's %s: %d offers", verb, n)
		}
	}
	h.Must("nft", "delete", "table", "inet", "trivet_pxe")
	from := time.Now()
	eventually(p.t, electLimit, "an offer without the filter: else nothing was tried",
		func() error { return atLeast(int64(answered(offer.since(from))), 1) })
	h.Must("systemctl", "unmask", "trivet.service")
	h.Must("systemctl", "restart", "trivet-firewall.service")
	h.Must("systemctl", "start", "trivet.service")
	p.voters(p.hosts...)
}

// upgrades brings another version, a newer or an older one, to one host after the other as
// docs/upgrade.md says, the leader last.
func (p *Packaged) upgrades(deb string) {
	p.t.Helper()
	began, leader := time.Now(), p.leader()
	followers := slices.DeleteFunc(slices.Clone(p.hosts), func(h *packagedHost) bool { return h == leader })
	for _, h := range append(followers, leader) {
		h.Must("sh", "-c", "until trivet failover-safe; do sleep 1; done")
		pid := h.Property("trivet.service", "MainPID")
		said := h.Must("dpkg", "-i", h.Place(deb))
		if !strings.Contains(said, "an upgrade restarts no peer") || h.Property("trivet.service", "MainPID") != pid {
			p.t.Errorf("an upgrade of %s restarted the peer, or does not say what to do:\n%s", h.name, said)
		}
		h.Must("systemctl", "restart", "trivet")
		p.voters(p.hosts...)
		p.answers()
	}
	p.t.Logf("another version on three hosts: %v; the longest time that nobody had the floating IP: %v",
		time.Since(began).Round(10*time.Millisecond), longest(p.address.since(began)))
}

// leaves purges the package from the host that leads, as it runs: address and
// rules go, and another host takes over.
func (p *Packaged) leaves(h *packagedHost) {
	p.t.Helper()
	began := time.Now()
	h.Must("dpkg", "-r", "trivet")
	p.answers()
	h.Must("dpkg", "-P", "trivet")
	if said := h.Must("ip", "address"); strings.Contains(said, p.floating) {
		p.t.Errorf("a purge leaves the address:\n%s", said)
	}
	if said := h.Must("nft", "list", "ruleset") + h.Must("iptables-save") +
		h.Must("ip6tables-save"); strings.Contains(strings.ToLower(said), "trivet") {
		p.t.Errorf("a purge leaves rules:\n%s", said)
	}
	if said, err := h.Try("getent", "passwd", "trivet"); err == nil {
		p.t.Errorf("a purge leaves the user: %s", said)
	}
	said := h.Must("find", "/", "-xdev", "-iname", "*trivet*", "-not", "-path", "/root/*", "-printf", "%p ") +
		h.Must("find", "/run", "-iname", "*trivet*")
	if said != "/etc/dnsmasq.d/trivet.conf /srv/tftp/trivet.ipxe " &&
		said != "/srv/tftp/trivet.ipxe /etc/dnsmasq.d/trivet.conf " {
		p.t.Errorf("a purge leaves more than what the operator wrote: %q", said)
	}
	p.t.Logf("removal of the leader: the longest time that nobody had the floating IP: %v",
		longest(p.address.since(began)))
}
