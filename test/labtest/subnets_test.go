//go:build e2e

package labtest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestEachSubnetIsToldItsOwn lets machines in the host's own subnet, and behind a relay
// by the line of docs/pxe.md, ask dnsmasq by the file that Trivet prints, and looks at each option
// that it sends. Over IPv6 a machine in the second subnet of the host is told its
// address there.
func TestEachSubnetIsToldItsOwn(t *testing.T) {
	t.Parallel()
	installGate(t)
	l := NewHosts(t)
	l.net.bridge(PXE)
	server, client := l.net.Host(1), l.net.bootClient()
	server.plug(PXE, server.pxe())
	const relay, second = "198.51.100.1", "2001:db8:2::1"
	l.net.ip(1, "addr", "add", second+"/64", "dev", string(PXE), "nodad")
	l.net.ip(1, "route", "add", "198.51.100.0/24", "via", client.pxe())
	l.net.ip(clientHost, "addr", "add", relay+"/24", "dev", "lo")
	own, own6 := netip.MustParseAddr(server.pxe()), netip.MustParseAddr(fmt.Sprint(pxeNet6, 1))
	startBatchServer(t, server, pxe.Server{
		Title: "two subnets", Interface: string(PXE), Root: t.TempDir(), Lease: pxe.ShortLease,
		Addresses: []netip.Prefix{netip.PrefixFrom(own, 24), netip.PrefixFrom(own6, 64),
			netip.MustParsePrefix(second + "/64")},
		Pools: []pxe.Pool{
			{First: pxeAddress(own, 100), Last: pxeAddress(own, 120)}, // the first of IPv6 has room for one machine
			{First: pxeAddress(own6, 100), Last: pxeAddress(own6, 100)},
			{First: netip.MustParseAddr("2001:db8:2::64"), Last: netip.MustParseAddr("2001:db8:2::78")},
		},
	}, relayedRange(t))

	wire := client.socket(PXE, unix.ETH_P_IP)
	b := newBatch(t, wire, nil, 1)
	var direct *dhcpv4.DHCPv4
	for round := 0; direct == nil; round++ { // dnsmasq may not be up yet
		if round == batchRounds {
			t.Fatal("the machine in the host's own subnet gets no offer")
		}
		b.send(b.macs[0], nil, dhcpv4.MessageTypeDiscover, nil)
		direct = b.answers(dhcpv4.MessageTypeOffer)[string(b.macs[0])]
	}
	toldOfSubnet(t, "own subnet", direct, netip.PrefixFrom(own, 24), "", own)
	toldOfSubnet(t, "behind the relay", client.askAsRelay(t, relay, own), netip.MustParsePrefix(relay+"/24"), relay, own)

	wire6 := client.socket(PXE, unix.ETH_P_IPV6)
	var got offer
	for n := range 2 { // the first machine gets an address in each subnet, the other in one
		got = bootRequest{wire: wire6, mac: []byte{2, 0, 0, 0, 3, byte(n)}, arch: 7, six: true}.lease(t, 1)
	}
	if want := "tftp://[" + second + "]/snponly.efi"; got.file != want ||
		!netip.MustParsePrefix(second+"/64").Contains(got.address) {
		t.Errorf("the machine at %v is told %q, want one in the second subnet, and %q", got.address, got.file, want)
	}
}

// pxeAddress is the address of a subnet that ends in last.
func pxeAddress(of netip.Addr, last byte) netip.Addr {
	raw := of.AsSlice()
	raw[len(raw)-1] = last
	a, _ := netip.AddrFromSlice(raw)
	return a
}

// relayedRange is the line for a relayed subnet that docs/pxe.md has.
func relayedRange(t *testing.T) string {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "pxe.md"))
	testenv.Must(t, err)
	for line := range strings.Lines(string(page)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "dhcp-range=198.51.100.") {
			return line
		}
	}
	t.Fatal("docs/pxe.md has no line for a relayed subnet")
	return ""
}

// askAsRelay passes on a machine's DISCOVER from an address of the host, as the relay of
// that subnet does, and returns the offer.
func (h *Host) askAsRelay(t *testing.T, relay string, server netip.Addr) *dhcpv4.DHCPv4 {
	t.Helper()
	var conn net.PacketConn
	testenv.Must(t, h.enter(func() (err error) {
		conn, err = net.ListenPacket("udp4", net.JoinHostPort(relay, "67"))
		return err
	}))
	defer conn.Close()
	mac := net.HardwareAddr{0x52, 0x54, 0, 0x52, 1, 1}
	ask := bootp(t, mac, nil, dhcpv4.MessageTypeDiscover, nil)
	ask.GatewayIPAddr = net.ParseIP(relay)
	if _, err := conn.WriteTo(ask.ToBytes(), net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, 67))); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, conn.SetReadDeadline(time.Now().Add(offerLimit)))
	b := make([]byte, 2048)
	n, _, err := conn.ReadFrom(b)
	if err != nil {
		t.Fatalf("the machine behind the relay gets no offer: %v", err)
	}
	o, err := dhcpv4.FromBytes(b[:n])
	if err != nil || o.MessageType() != dhcpv4.MessageTypeOffer {
		t.Fatalf("the machine behind the relay gets %x (%v)", b[:n], err)
	}
	return o
}

// toldOfSubnet checks each option of an offer that a subnet decides.
func toldOfSubnet(t *testing.T, where string, o *dhcpv4.DHCPv4, subnet netip.Prefix, router string, server netip.Addr) {
	t.Helper()
	address, _ := netip.AddrFromSlice(o.YourIPAddr.To4())
	if !subnet.Contains(address) {
		t.Errorf("%s: offered %v, want one of %v", where, address, subnet)
	}
	for option, want := range map[dhcpv4.OptionCode]string{
		dhcpv4.OptionSubnetMask: "ffffff00", dhcpv4.OptionRouter: fmt.Sprintf("%x", []byte(net.ParseIP(router).To4())),
		dhcpv4.OptionBroadcastAddress: fmt.Sprintf("%x", pxeAddress(address, 255).AsSlice()),
		dhcpv4.OptionDomainNameServer: "", dhcpv4.OptionInterfaceMTU: "", dhcpv4.OptionClassIdentifier: "",
		dhcpv4.OptionServerIdentifier: fmt.Sprintf("%x", server.AsSlice()),
		dhcpv4.OptionBootfileName:     "", // the machine does not say what it is
	} {
		if got := fmt.Sprintf("%x", o.Options.Get(option)); got != want {
			t.Errorf("%s: option %v is %q, want %q", where, option, got, want)
		}
	}
	if !o.ServerIPAddr.Equal(server.AsSlice()) {
		t.Errorf("%s: the next server is %v, want %v", where, o.ServerIPAddr, server)
	}
}
