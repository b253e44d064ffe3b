package portholder

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestInTheWay names this process for each port that it has, whatever address of it is
// wanted, and for no other.
func TestInTheWay(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcpAt, udpAt := tcp.Addr().(*net.TCPAddr).AddrPort(), udp.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, a := range []netip.Addr{tcpAt.Addr(), netip.IPv4Unspecified(), netip.IPv6Unspecified(), {}} {
		for _, addr := range []net.Addr{net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, tcpAt.Port())),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, udpAt.Port()))} {
			holders, err := Of(addr.Network(), addr.(interface{ AddrPort() netip.AddrPort }).AddrPort())
			if err != nil || len(holders) != 1 || holders[0].PID != os.Getpid() || holders[0].UID != uint32(os.Getuid()) {
				t.Errorf("holder: %s %v: %+v, %v", addr.Network(), addr, holders, err)
			}
			failed := &net.OpError{Op: "listen", Net: addr.Network(), Addr: addr,
				Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
			if name := InTheWay(failed); !strings.Contains(name, fmt.Sprintf("(pid %d", os.Getpid())) {
				t.Errorf("holder: %s %v: %q", addr.Network(), addr, name)
			}
		}
	}
	for _, free := range []string{"127.0.0.2", "::1"} {
		if holders, err := Of("tcp", netip.AddrPortFrom(netip.MustParseAddr(free), tcpAt.Port())); err != nil ||
			len(holders) != 0 {
			t.Errorf("%s: %+v, %v", free, holders, err)
		}
	}
	if name := InTheWay(errors.New("other")); name != "" {
		t.Errorf("named %q", name)
	}
}

func TestNames(t *testing.T) {
	for want, h := range map[string]Holder{
		"dhcpd (pid 812, isc-dhcp-server.service)": {Program: "dhcpd", PID: 812,
			Unit: "isc-dhcp-server.service"},
		"python3 (pid 7)": {Program: "python3", PID: 7},
		"a program of the user with ID 110, ironic-inspector.service": {UID: 110, Unit: "ironic-inspector.service"},
		"a program of the user with ID 0":                             {},
	} {
		if got := Names([]Holder{h, h}); got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
	}
	for path, want := range map[string]string{
		"0::/system.slice/isc-dhcp-server.service": "isc-dhcp-server.service",
		"0::/system.slice/docker-4f.scope/init":    "docker-4f.scope",
		"0::/":                                     "", "": "",
	} {
		if got := unitIn(path); got != want {
			t.Errorf("%q is in %q, want %q", path, got, want)
		}
	}
	root, err := os.Stat("/sys/fs/cgroup")
	if err != nil {
		return
	}
	if got := groupOf(root.Sys().(*syscall.Stat_t).Ino); !strings.HasPrefix(got, "/sys/fs/cgroup") {
		t.Errorf("the root of the control groups is %q", got)
	}
}
