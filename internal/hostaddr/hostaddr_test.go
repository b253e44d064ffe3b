package hostaddr

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestAddressesThatStay has what the kernel lists of a host with SLAAC and privacy
// extensions: the newest address first, which it will drop.
func TestAddressesThatStay(t *testing.T) {
	address := func(text string, flags, life int) netlink.Addr {
		ip, subnet, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: subnet.Mask}, Flags: flags, ValidLft: life}
	}
	const forEver = int(^uint32(0))
	got := lasting([]netlink.Addr{
		address("192.0.2.1/24", unix.IFA_F_PERMANENT, forEver),
		address("192.0.2.7/24", unix.IFA_F_SECONDARY, 600),
		address("2001:db8:1::9/64", unix.IFA_F_TEMPORARY, 604800),
		address("2001:db8:1::8/64", unix.IFA_F_DEPRECATED, 604800),
		address("2001:db8:1::7/64", unix.IFA_F_TENTATIVE, 604800),
		address("2001:db8:1::6/64", unix.IFA_F_MANAGETEMPADDR, 86400),
		address("2001:db8:1::5/64", unix.IFA_F_MANAGETEMPADDR, 1209600),
		address("2001:db8:1::21/64", unix.IFA_F_PERMANENT, forEver),
		address("2001:db8:1::22/64", unix.IFA_F_PERMANENT|unix.IFA_F_TENTATIVE, forEver),
		address("2001:db8:1::23/64", unix.IFA_F_PERMANENT|unix.IFA_F_DEPRECATED, forEver),
		address("2001:db8:1::24/64", unix.IFA_F_PERMANENT|unix.IFA_F_DADFAILED, forEver),
		address("2001:db8::6/64", unix.IFA_F_MANAGETEMPADDR, 86400),
	})
	var want []netip.Prefix
	for _, text := range []string{"192.0.2.1/24", "192.0.2.7/24", "2001:db8::6/64", "2001:db8:1::21/64",
		"2001:db8:1::22/64", "2001:db8:1::23/64", "2001:db8:1::5/64", "2001:db8:1::6/64"} {
		want = append(want, netip.MustParsePrefix(text))
	}
	if !slices.Equal(got, want) {
		t.Errorf("lasting-address: %v, want %v", got, want)
	}
}

// TestSourceIsNoPrivacyAddress: the kernel is asked for one that others know.
func TestSourceIsNoPrivacyAddress(t *testing.T) {
	listening := net.ListenConfig{Control: preferPublic}
	socket, err := listening.ListenPacket(t.Context(), "udp6", "[::1]:0")
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
		testenv.Missing(t, "no IPv6: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	conn, err := socket.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var chosen int
	err = errors.Join(conn.Control(func(fd uintptr) {
		chosen, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, ipv6AddrPreferences)
	}), err)
	if chosen&ipv6PreferSrcPublic == 0 || err != nil {
		t.Errorf("lasting-source: the kernel chooses by %#x (%v)", chosen, err)
	}
}
