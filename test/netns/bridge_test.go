//go:build e2e

package netns_test

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/firewall/probe"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// bridged makes a host whose interface pxe, cabled to a, is a port of the bridge
// br-pxe, and starts dnsmasq on the bridge, with DHCP and DHCPv6.
func bridged(t *testing.T, a *netns.Host) *netns.Host {
	t.Helper()
	b := netns.New(t)
	a.Cable("pxe", b, "pxe")
	b.Do(func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br-pxe"}})
	})
	b.Change("br-pxe", netlink.LinkSetUp)
	bridge := b.Link("br-pxe")
	b.Change("pxe", func(port netlink.Link) error { return netlink.LinkSetMasterByIndex(port, bridge.Attrs().Index) })
	b.Carry("br-pxe", "192.0.2.1/24")
	b.Carry("br-pxe", "2001:db8::1/64")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		testenv.Missing(t, "find dnsmasq: %v; install Debian's dnsmasq-base", err)
	}
	cmd := exec.Command(program, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root",
		"--interface=br-pxe", "--bind-dynamic", "--no-ping",
		"--dhcp-range=192.0.2.50,192.0.2.250,255.255.255.0,120s", "--dhcp-range=2001:db8::50,2001:db8::250,64,120s",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"), "--log-facility="+log,
		"--log-dhcp")
	b.Do(cmd.Start)
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("dnsmasq: %v", err)
		}
		if text, err := os.ReadFile(log); t.Failed() {
			t.Logf("dnsmasq said: %s, %v", text, err)
		}
	})
	testwait.UntilWithin(t, 30*time.Second, "dnsmasq serves DHCP and DHCPv6", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "DHCP, IP range") &&
			strings.Contains(string(text), "DHCPv6, IP range")
	})
	return b
}

// closes puts the filter of a host that does not lead on one of its interfaces.
func closes(t *testing.T, h *netns.Host, link string) {
	t.Helper()
	f, err := nftables.New(firewall.Layout{Interface: link, Match: firewall.MatchEther}, nftables.InNamespace(h.FD()))
	if err != nil {
		t.Fatal(err)
	}
	chains := f.Chains()
	if err := errors.Join(chains.Replace(t.Context(), firewall.Ruleset{Deny: []string{firewall.TestMAC}}),
		chains.Close()); err != nil {
		t.Fatal(err)
	}
}

// answering returns the servers that one test from a host finds.
func answering(t *testing.T, h *netns.Host) []probe.Server {
	t.Helper()
	p := probe.New(probe.Options{Interface: "pxe", Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)})
	var servers []probe.Server
	if err := h.Try(func() (err error) {
		servers, err = p.Test(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return servers
}

// A real server on a bridge answers a filter that stands on the bridge's port, by
// both protocols, and none that stands on the bridge.
func TestRealServerOnABridgeIsFound(t *testing.T) {
	a := netns.New(t)
	b := bridged(t, a)
	mac := b.MAC("br-pxe").String()
	closes(t, b, "pxe")
	testwait.UntilWithin(t, time.Minute, "the server is found by DHCP and DHCPv6", func() bool {
		servers := answering(t, a)
		return len(servers) == 2 && servers[0] == probe.Server{Address: netip.MustParseAddr("192.0.2.1"), MAC: mac} &&
			servers[1].Address.IsLinkLocalUnicast() && servers[1].MAC == mac
	})
	closes(t, b, "br-pxe")
	if servers := answering(t, a); len(servers) > 0 {
		t.Errorf("behind a filter on the bridge: found %v", servers)
	}
}
