//go:build e2e

package nftables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

// pollEvery is how often a condition is checked, and labLimit for how long.
const (
	pollEvery = 5 * time.Millisecond
	labLimit  = 20 * time.Second
)

// pxe is the host's interface on which machines boot, and wire the far end of
// its cable.
const (
	pxe  = "pxe0"
	wire = "wire0"
)

// Addresses of the host.
var (
	hostIPv4 = netip.MustParseAddr("192.0.2.1")
	hostIPv6 = netip.MustParseAddr("fd00::1")
)

// host is a host of the tests; its rules end with it.
type host struct {
	t testing.TB
	*netns.Host
}

func newHost(t testing.TB) *host {
	t.Helper()
	return &host{t, netns.New(t)}
}

// filter returns a filter of this host.
func (h *host) filter(m firewall.Match, options ...Option) *Filter {
	h.t.Helper()
	f, err := New(firewall.Layout{Interface: pxe, Match: m}, append(options, InNamespace(h.FD()))...)
	if err != nil {
		h.t.Fatal(err)
	}
	return f
}

// lease returns the lease of f, shut.
func (h *host) lease(f *Filter) *Lease {
	h.t.Helper()
	l := f.Lease()
	h.t.Cleanup(func() { h.must(l.Close()) })
	h.must(l.Shut(h.t.Context()))
	return l
}

func (h *host) chains(f *Filter) *Chains {
	c := f.Chains()
	h.t.Cleanup(func() { h.must(c.Close()) })
	return c
}

// open opens the door for d.
func (h *host) open(l *Lease, d time.Duration) {
	h.t.Helper()
	h.must(l.Arm(h.t.Context(), time.Minute))
	h.must(l.Open(h.t.Context(), d))
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// write makes a change that is not the filter's own.
func (h *host) write(f *Filter, changes ...[]netlink.Message) {
	h.t.Helper()
	stranger := h.filter(f.layout.Match)
	s := stranger.socket()
	defer func() { h.must(s.close()) }()
	var all []netlink.Message
	for _, c := range changes {
		all = append(all, c...)
	}
	h.must(s.commit(h.t.Context(), 0, all...))
}

// eventually waits until check is true.
func eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	testwait.UntilWithin(t, labLimit, what, check)
}

// cable gives the host its PXE interface with addresses, and returns the far
// end.
func (h *host) cable() *far {
	h.t.Helper()
	h.Cable(pxe, h.Host, wire)
	h.Carry(pxe, hostIPv4.String()+"/32")
	h.Carry(pxe, hostIPv6.String()+"/128")
	f := &far{host: h, to: h.MAC(pxe)}
	index := h.Link(wire).Attrs().Index
	h.Do(func() (err error) {
		f.socket, err = rawsocket.Open(index, unix.ETH_P_IP, nil)
		return err
	})
	h.t.Cleanup(func() { h.must(f.socket.Close()) })
	return f
}

// far is the far end of the host's cable.
type far struct {
	*host
	socket rawsocket.Socket
	to     net.HardwareAddr // the host's
	sent   int
}

// packet is a datagram from a machine that boots.
type packet struct {
	from string // the frame's source
	// client is the hardware address in the payload, like that of DHCP over
	// IPv4; the frame's source if it is empty.
	client  string
	relayed bool // as a relay passes it on
	unicast bool // from an address, over IPv4, not broadcast from none
	six     bool // IPv6
	port    uint16
}

// reaches sends p and reports whether a server on the host receives it. That
// it does not is known when a later one to a port that nobody filters is there.
func (f *far) reaches(p packet) bool {
	f.t.Helper()
	server, witness := f.listen(p.six, p.port), f.listen(p.six, 69)
	defer func() { f.must(errors.Join(server.Close(), witness.Close())) }()
	f.sent++
	marker := fmt.Appendf(nil, "packet %d", f.sent)
	later := p
	later.port = 69
	f.must(errors.Join(f.socket.Send(p.frame(f.to, marker)), f.socket.Send(later.frame(f.to, marker))))
	if !received(f.t, witness, marker, labLimit) {
		f.t.Fatal("what nobody filters did not arrive")
	}
	return received(f.t, server, marker, 20*time.Millisecond)
}

func (f *far) listen(six bool, port uint16) (conn net.PacketConn) {
	f.t.Helper()
	f.Do(func() (err error) {
		network := "udp4"
		if six {
			network = "udp6"
		}
		conn, err = net.ListenPacket(network, fmt.Sprintf(":%d", port))
		return err
	})
	return conn
}

func received(t testing.TB, conn net.PacketConn, marker []byte, limit time.Duration) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b[:n], marker) {
			return true
		}
	}
}

// payload is like that of BOOTP, or of DHCPv6, with a marker at its end.
func (p packet) payload(marker []byte) []byte {
	client := p.client
	if client == "" {
		client = p.from
	}
	head := make([]byte, 28)
	head[0] = 1 // a request of BOOTP, a SOLICIT of DHCPv6
	switch {
	case p.relayed && p.six:
		head[0] = 12 // RELAY-FORW
	case p.relayed:
		copy(head[24:], []byte{198, 51, 100, 7}) // where its machines are
	}
	return slicesOf(head, mustMAC(client), make([]byte, 10), marker)
}

// frame spells the packet.
func (p packet) frame(to net.HardwareAddr, marker []byte) []byte {
	source, dest, kind := netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255"), uint16(unix.ETH_P_IP)
	switch {
	case p.six:
		source, dest, kind = netip.MustParseAddr("fe80::7"), hostIPv6, unix.ETH_P_IPV6
	case p.unicast:
		source, dest = netip.MustParseAddr("192.0.2.7"), hostIPv4
	}
	if source.IsUnspecified() {
		to = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	datagram := udpDatagram(source, dest, p.port, p.payload(marker))
	header := slicesOf(to, mustMAC(p.from), binary.BigEndian.AppendUint16(nil, kind))
	if p.six {
		return slicesOf(header, []byte{0x60, 0, 0, 0}, binary.BigEndian.AppendUint16(nil, uint16(len(datagram))),
			[]byte{unix.IPPROTO_UDP, 64}, source.AsSlice(), dest.AsSlice(), datagram)
	}
	ip := slicesOf([]byte{0x45, 0}, binary.BigEndian.AppendUint16(nil, uint16(20+len(datagram))),
		[]byte{0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}, source.AsSlice(), dest.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], rawsocket.Checksum(ip))
	return slicesOf(header, ip, datagram)
}

func udpDatagram(source, dest netip.Addr, port uint16, payload []byte) []byte {
	d := binary.BigEndian.AppendUint16(nil, 68)
	d = binary.BigEndian.AppendUint16(d, port)
	d = binary.BigEndian.AppendUint16(d, uint16(8+len(payload)))
	d = append(append(d, 0, 0), payload...)
	pseudo := slicesOf(source.AsSlice(), dest.AsSlice(), []byte{0, unix.IPPROTO_UDP},
		binary.BigEndian.AppendUint16(nil, uint16(len(d))))
	binary.BigEndian.PutUint16(d[6:], rawsocket.Checksum(slicesOf(pseudo, d)))
	return d
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func mustMAC(s string) []byte {
	mac, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return mac
}

// numbered returns n different MACs, sorted.
func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = net.HardwareAddr{0x52, 0x54, 0, byte(i >> 16), byte(i >> 8), byte(i)}.String()
	}
	return list
}
