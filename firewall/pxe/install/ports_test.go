package install

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/internal/portholder"
)

// TestInstallNamesWhatHasThePort: next to a program that has a port of dnsmasq's nothing
// is done, and the program is named. dnsmasq's own service, which is restarted, is none.
func TestInstallNamesWhatHasThePort(t *testing.T) {
	for port, want := range map[uint16]string{67: "0.0.0.0:67", 69: "192.0.2.1:69", 547: "[::]:547"} {
		s, p := newSite(t), plan()
		if port == 547 {
			six := netip.MustParsePrefix("2001:db8::1/64")
			p.Server.Addresses, p.Server.Pools = append(p.Server.Addresses, six),
				append(p.Server.Pools, pxe.Pool{First: netip.MustParseAddr("2001:db8::1000"),
					Last: netip.MustParseAddr("2001:db8::1fff")})
		}
		s.holders = map[uint16][]portholder.Holder{port: {{Program: "dhcpd", PID: 812, Unit: "isc-dhcp-server.service"}}}
		before := s.tree()
		_, err := s.host().Install(t.Context(), p)
		var taken *TakenError
		if !errors.As(err, &taken) || taken.Unit != "isc-dhcp-server.service" ||
			!strings.Contains(err.Error(),
				"UDP port "+want+", which dnsmasq needs, is taken by dhcpd (pid 812, isc-dhcp-server.service)") {
			t.Errorf("port %d: %v", port, err)
		}
		same(t, "refused", s.tree(), before)
		s.holders[port][0] = portholder.Holder{Program: "dnsmasq", PID: 7, Unit: unit}
		s.install(p)
		s.holders[port][0], s.shared = portholder.Holder{Program: "dnsmasq", PID: 9, Unit: "libvirtd.service",
			Device: 1 << 30}, true
		if r := s.install(p); strings.Contains(text(r), "UDP port") {
			t.Errorf("port %d, dnsmasq of another interface: %s", port, text(r))
		}
		s.holders[port][0] = portholder.Holder{Program: "udhcpd", PID: 9}
		if r := s.install(p); !strings.Contains(text(r),
			"UDP port "+want+" also belongs to udhcpd (pid 9), which may answer machines next to dnsmasq") {
			t.Errorf("port %d, shared: %s", port, text(r))
		}
	}
}

// TestBind judges as dnsmasq's own bind does.
func TestBind(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	if err := Bind(t.Context(), netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())); !errors.Is(err,
		syscall.EADDRINUSE) {
		t.Errorf("next to a program that shares nothing: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Bind(t.Context(), netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Errorf("a free port: %v", err)
	}
}
