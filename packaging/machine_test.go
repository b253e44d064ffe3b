//go:build e2e

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/testwait"
)

// machine is a host with a systemd of its own.
type machine struct {
	*labtest.System
	t *testing.T
}

// await polls until something is true.
func (m *machine) await(what string, check func() bool) {
	m.t.Helper()
	testwait.UntilWithin(m.t, bootLimit, what, check)
}

func (m *machine) want(unit, name, value string) {
	m.t.Helper()
	if got := m.Property(unit, name); got != value {
		m.t.Errorf("%s of %s is %q, want %q", name, unit, got, value)
	}
}

// hasFilter says whether the kernel has the table of the PXE filter.
func (m *machine) hasFilter() bool {
	return strings.Contains(m.Must("nft", "list", "tables"), "trivet_pxe")
}

// configuration of a peer that is alone and asks nobody outside of its host.
const configuration = `name: h1
api: {listen: "127.0.0.1:5050"}
cluster: {listen: "127.0.0.1:7350"}
gossip: {listen: "127.0.0.1:7351"}
firewall: {interface: br-pxe, driver: nftables}
`

// onHost takes the package through its life where systemd runs.
func onHost(t *testing.T, root, deb string) {
	m := &machine{labtest.StartSystem(t, root, "h1"), t}
	path := m.Place(deb)
	before := tree(t, m.Dir)
	says(t, m.Must("dpkg", "-i", path), "trivet init")
	m.unconfigured()
	m.configured()
	m.directoryAway()
	m.restarts()
	m.emptied()
	m.upgraded(path)
	m.removed()
	m.Must("dpkg", "-P", "trivet")
	if m.hasFilter() {
		t.Error("a purge leaves the filter")
	}
	leftNothing(t, m.Dir, before)
	m.want("dnsmasq.service", "ActiveState", "active")
}

// unconfigured: nothing starts, and a DHCP server that was there is left alone.
func (m *machine) unconfigured() {
	m.t.Helper()
	m.Must("systemctl", "start", "trivet.service") // skipped, no failure
	m.Must("systemctl", "restart", "dnsmasq.service")
	m.want("trivet.service", "ActiveState", "inactive")
	m.want("trivet-firewall.service", "ActiveState", "inactive")
	m.want("dnsmasq.service", "ActiveState", "active")
	if m.hasFilter() {
		m.t.Error("a filter was installed on a host that is not configured")
	}
}

// configured: no DHCP server without the filter, from the file alone.
func (m *machine) configured() {
	m.t.Helper()
	file := filepath.Join(m.Dir, "etc/trivet/trivet.yaml")
	write := func(text string) {
		m.t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil { // the owner stays
			m.t.Fatal(err)
		}
	}
	write("nonsense: 1\n")
	if out, err := m.Try("systemctl", "restart", "dnsmasq.service"); err == nil {
		m.t.Errorf("a DHCP server runs without a filter: %s", out)
	}
	write(configuration)
	m.Must("systemctl", "restart", "dnsmasq.service")
	m.want("trivet-firewall.service", "ActiveState", "active")
	if !m.hasFilter() {
		m.t.Error("a DHCP server runs without a filter")
	}
	m.Must("trivet", "init")
	m.Must("systemctl", "start", "trivet.service")
	m.await("a leader", func() bool {
		out, _ := m.Try("trivet", "peers") // until then it says so
		return strings.Contains(out, "leader")
	})
}

// directoryAway: the drop-in of docs/security.md for a directory that is not there keeps no peer from starting.
func (m *machine) directoryAway() {
	m.t.Helper()
	dir := filepath.Join(m.Dir, "etc/systemd/system/trivet.service.d")
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "backup.conf"), []byte("[Service]\nReadWritePaths=-/mnt/nas/trivet\n"), 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.Must("systemctl", "daemon-reload")
	m.Must("systemctl", "restart", "trivet.service")
	m.want("trivet.service", "ActiveState", "active")
	if err := os.RemoveAll(dir); err != nil {
		m.t.Fatal(err)
	}
	m.Must("systemctl", "daemon-reload")
}

// restarts: also of a peer that died of itself, which for a Go program is easily
// the exit code that means a wrong configuration.
func (m *machine) restarts() {
	m.t.Helper()
	for i, signal := range []string{"ABRT", "KILL"} {
		m.Must("systemctl", "kill", "--signal="+signal, "--kill-who=main", "trivet.service")
		m.await("restart after "+signal, func() bool {
			return m.Property("trivet.service", "NRestarts") == fmt.Sprint(i+1) &&
				m.Property("trivet.service", "ActiveState") == "active"
		})
	}
}

// emptied: a peer whose configuration is gone was configured once; its DHCP server does not start without a filter.
func (m *machine) emptied() {
	m.t.Helper()
	file := filepath.Join(m.Dir, "etc/trivet/trivet.yaml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, nil, 0o640)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.Must("systemctl", "stop", "trivet-firewall.service")
	if out, err := m.Try("systemctl", "restart", "dnsmasq.service"); err == nil {
		m.t.Errorf("peer-configured: a DHCP server runs without a filter: %s", out)
	}
	if err := os.WriteFile(file, text, 0o640); err != nil {
		m.t.Fatal(err)
	}
	m.Must("systemctl", "reset-failed", "trivet-firewall.service") // no operator starts it as often in ten seconds
	m.Must("systemctl", "restart", "dnsmasq.service")
	m.want("trivet-firewall.service", "ActiveState", "active")
}

// upgraded: the peer runs on.
func (m *machine) upgraded(path string) {
	m.t.Helper()
	pid := m.Property("trivet.service", "MainPID")
	says(m.t, m.Must("dpkg", "-i", path), "an upgrade restarts no peer", "systemctl restart trivet")
	m.want("trivet.service", "MainPID", pid)
	m.want("trivet.service", "ActiveState", "active")
}

// removed: state and filter stay.
func (m *machine) removed() {
	m.t.Helper()
	says(m.t, m.Must("dpkg", "-r", "trivet"), "stays shut until it is rebooted", "Its state stays")
	if _, err := os.Stat(filepath.Join(m.Dir, "var/lib/trivet/peer")); err != nil {
		m.t.Error(err)
	}
	if !m.hasFilter() {
		m.t.Error("a removal opened the door")
	}
	m.want("trivet.service", "ActiveState", "inactive")
	m.want("dnsmasq.service", "ActiveState", "active")
}
