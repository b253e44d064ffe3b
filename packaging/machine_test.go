//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// machine is a host with a systemd of its own, in a container.
type machine struct {
	t    *testing.T
	dir  string // its root
	init string // process ID of its systemd
}

// boot starts a machine on a copy of root; it is gone when the test ends.
func boot(t *testing.T, root string) *machine {
	t.Helper()
	m := &machine{t: t, dir: overlay(t, root)}
	if err := os.WriteFile(filepath.Join(m.dir, "etc/machine-id"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("trivet-test-%d", os.Getpid())
	cmd := exec.Command("systemd-nspawn", "--quiet", "--directory="+m.dir, "--register=no", "--keep-unit", "--boot",
		"--machine="+name, "--private-network", "--capability=CAP_NET_ADMIN,CAP_NET_RAW")
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.init != "" {
			command(t, "kill", "-9", m.init) // it ends with everything in it, and the container after it
		} else if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()                                              // killed, by us
		_ = os.Remove("/run/systemd/nspawn/propagate/" + name)      // where this systemd makes them
		_ = os.RemoveAll("/run/systemd/nspawn/unix-export/" + name) // likewise
		if t.Failed() {
			t.Logf("console:\n%s", console.Bytes())
		}
	})
	m.await("its systemd", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		m.init = strings.TrimSpace(string(children))
		return err == nil && m.init != ""
	})
	m.await("a running system", func() bool {
		out, _ := m.try("systemctl", "is-system-running") // "starting" is an error, too
		return strings.HasPrefix(out, "running") || strings.HasPrefix(out, "degraded")
	})
	return m
}

// await polls until something is true.
func (m *machine) await(what string, check func() bool) {
	m.t.Helper()
	limit := time.NewTimer(bootLimit)
	defer limit.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-limit.C:
			m.t.Fatalf("not within %v: %s", bootLimit, what)
		}
	}
}

func (m *machine) try(words ...string) (string, error) {
	return try(append([]string{"nsenter", "--all", "--target", m.init}, words...)...)
}

func (m *machine) must(words ...string) string {
	m.t.Helper()
	out, err := m.try(words...)
	if err != nil {
		journal, _ := m.try("journalctl", "--no-pager", "--lines=40") // as far as there is one
		m.t.Fatalf("%s: %v\n%s\n%s", strings.Join(words, " "), err, out, journal)
	}
	return out
}

// property asks systemd for a property of a unit.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.must("systemctl", "show", "--property="+name, "--value", unit))
}

func (m *machine) want(unit, name, value string) {
	m.t.Helper()
	if got := m.property(unit, name); got != value {
		m.t.Errorf("%s of %s is %q, want %q", name, unit, got, value)
	}
}

// hasFilter says whether the kernel has the table of the PXE filter.
func (m *machine) hasFilter() bool {
	return strings.Contains(m.must("nft", "list", "tables"), "trivet_pxe")
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
	m := boot(t, root)
	path := place(t, m.dir, deb)
	before := tree(t, m.dir)
	says(t, m.must("dpkg", "-i", path), "trivet init")
	m.unconfigured()
	m.configured()
	m.restarts()
	m.upgraded(path)
	m.removed()
	m.must("dpkg", "-P", "trivet")
	if m.hasFilter() {
		t.Error("a purge leaves the filter")
	}
	leftNothing(t, m.dir, before)
	m.want("dnsmasq.service", "ActiveState", "active")
}

// unconfigured: nothing starts, and a DHCP server that was there is left alone.
func (m *machine) unconfigured() {
	m.t.Helper()
	m.must("systemctl", "start", "trivet.service") // skipped, no failure
	m.must("systemctl", "restart", "dnsmasq.service")
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
	file := filepath.Join(m.dir, "etc/trivet/trivet.yaml")
	write := func(text string) {
		m.t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil { // the owner stays
			m.t.Fatal(err)
		}
	}
	write("nonsense: 1\n")
	if out, err := m.try("systemctl", "restart", "dnsmasq.service"); err == nil {
		m.t.Errorf("a DHCP server runs without a filter: %s", out)
	}
	write(configuration)
	m.must("systemctl", "restart", "dnsmasq.service")
	m.want("trivet-firewall.service", "ActiveState", "active")
	if !m.hasFilter() {
		m.t.Error("a DHCP server runs without a filter")
	}
	m.must("trivet", "init")
	m.must("systemctl", "start", "trivet.service")
	m.await("a leader", func() bool {
		out, _ := m.try("trivet", "peers") // until then it says so
		return strings.Contains(out, "leader")
	})
}

// restarts: also of a peer that died of itself, which for a Go program is easily
// the exit code that means a wrong configuration.
func (m *machine) restarts() {
	m.t.Helper()
	for i, signal := range []string{"ABRT", "KILL"} {
		m.must("systemctl", "kill", "--signal="+signal, "--kill-who=main", "trivet.service")
		m.await("restart after "+signal, func() bool {
			return m.property("trivet.service", "NRestarts") == fmt.Sprint(i+1) && m.property("trivet.service", "ActiveState") == "active"
		})
	}
}

// upgraded: the peer runs on.
func (m *machine) upgraded(path string) {
	m.t.Helper()
	pid := m.property("trivet.service", "MainPID")
	says(m.t, m.must("dpkg", "-i", path), "an upgrade restarts no peer", "systemctl restart trivet")
	m.want("trivet.service", "MainPID", pid)
	m.want("trivet.service", "ActiveState", "active")
}

// removed: state and filter stay.
func (m *machine) removed() {
	m.t.Helper()
	says(m.t, m.must("dpkg", "-r", "trivet"), "stays shut until it is rebooted", "Its state stays")
	if _, err := os.Stat(filepath.Join(m.dir, "var/lib/trivet/peer")); err != nil {
		m.t.Error(err)
	}
	if !m.hasFilter() {
		m.t.Error("a removal opened the door")
	}
	m.want("trivet.service", "ActiveState", "inactive")
	m.want("dnsmasq.service", "ActiveState", "active")
}
