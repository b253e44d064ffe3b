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
	"runtime"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// pollEvery is how often a condition is looked at, and patience how long.
const (
	pollEvery = 5 * time.Millisecond
	patience  = 20 * time.Second
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

// host is a network namespace without a name and the thread that lives in it:
// when the thread ends, so do the namespace and its rules, also when the tester
// is killed.
type host struct {
	t    testing.TB
	jobs chan func()
	ns   *os.File
}

func newHost(t testing.TB) *host {
	t.Helper()
	needRoot(t)
	h := &host{t: t, jobs: make(chan func())} // closed when the test ends
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for job := range h.jobs {
			job()
		}
	}()
	t.Cleanup(func() { close(h.jobs) })
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	h.do(func() (err error) {
		h.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	t.Cleanup(func() {
		if err := h.ns.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// needRoot skips the test without root, or fails it where CI=true lets nothing
// be skipped.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("it needs root, and CI=true lets nothing be skipped")
	}
	t.Skip("it needs root")
}

// do runs f on the host; it has to succeed.
func (h *host) do(f func() error) {
	h.t.Helper()
	done := make(chan error)
	h.jobs <- func() { done <- f() }
	if err := <-done; err != nil {
		h.t.Fatal(err)
	}
}

// filter returns a filter of this host.
func (h *host) filter(m firewall.Match, options ...Option) *Filter {
	h.t.Helper()
	f, err := New(firewall.Layout{Interface: pxe, Match: m}, append(options, InNamespace(int(h.ns.Fd())))...)
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
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for began := time.Now(); !check(); <-tick.C {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// cable gives the host its PXE interface with addresses, and returns the far
// end.
func (h *host) cable() *far {
	h.t.Helper()
	f := &far{host: h}
	h.do(func() error {
		err := links.LinkAdd(&links.Veth{LinkAttrs: links.LinkAttrs{Name: pxe}, PeerName: wire})
		if err != nil {
			return err
		}
		for _, name := range []string{"lo", pxe, wire} {
			link, err := links.LinkByName(name)
			if err != nil {
				return err
			}
			if err := links.LinkSetUp(link); err != nil {
				return err
			}
			switch name {
			case pxe:
				f.to = link.Attrs().HardwareAddr
				err = errors.Join(
					links.AddrAdd(link, &links.Addr{IPNet: links.NewIPNet(hostIPv4.AsSlice())}),
					links.AddrAdd(link, &links.Addr{IPNet: links.NewIPNet(hostIPv6.AsSlice()), Flags: unix.IFA_F_NODAD}))
			case wire:
				f.index = link.Attrs().Index
			}
			if err != nil {
				return err
			}
		}
		f.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return err
	})
	h.t.Cleanup(func() { h.must(unix.Close(f.raw)) })
	eventually(h.t, "the cable carries", func() bool { return h.carries(pxe) && h.carries(wire) })
	return f
}

// carries reports whether a link is up; until then it drops what it shall send.
func (h *host) carries(name string) (up bool) {
	h.t.Helper()
	h.do(func() error {
		link, err := links.LinkByName(name)
		up = err == nil && link.Attrs().OperState == links.OperUp
		return err
	})
	return up
}

// far is the far end of the host's cable.
type far struct {
	*host
	raw   int
	index int
	to    net.HardwareAddr // the host's
	sent  int
}

// packet is a datagram from a machine that boots.
type packet struct {
	from string // the frame's source
	// client is the hardware address in the payload, like that of DHCP over
	// IPv4; the frame's source if it is empty.
	client string
	relay  bool // unicast from a relay's address, not broadcast from none
	six    bool // IPv6
	port   uint16
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
	f.do(func() error { return errors.Join(f.send(p, marker), f.send(later, marker)) })
	if !received(f.t, witness, marker, patience) {
		f.t.Fatal("what nobody filters did not arrive")
	}
	return received(f.t, server, marker, 20*time.Millisecond)
}

func (f *far) listen(six bool, port uint16) (conn net.PacketConn) {
	f.t.Helper()
	f.do(func() (err error) {
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

func (f *far) send(p packet, marker []byte) error {
	return unix.Sendto(f.raw, p.frame(f.to, marker), 0, &unix.SockaddrLinklayer{Ifindex: f.index})
}

// frame spells the packet, with a payload like that of BOOTP.
func (p packet) frame(to net.HardwareAddr, marker []byte) []byte {
	client := p.client
	if client == "" {
		client = p.from
	}
	payload := slicesOf(make([]byte, 28), mustMAC(client), make([]byte, 10), marker)
	source, dest, kind := netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255"), uint16(unix.ETH_P_IP)
	switch {
	case p.six:
		source, dest, kind = netip.MustParseAddr("fe80::7"), hostIPv6, unix.ETH_P_IPV6
	case p.relay:
		source, dest = netip.MustParseAddr("192.0.2.7"), hostIPv4
	}
	if source.IsUnspecified() {
		to = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	datagram := udpDatagram(source, dest, p.port, payload)
	header := slicesOf(to, mustMAC(p.from), binary.BigEndian.AppendUint16(nil, kind))
	if p.six {
		return slicesOf(header, []byte{0x60, 0, 0, 0}, binary.BigEndian.AppendUint16(nil, uint16(len(datagram))),
			[]byte{unix.IPPROTO_UDP, 64}, source.AsSlice(), dest.AsSlice(), datagram)
	}
	ip := slicesOf([]byte{0x45, 0}, binary.BigEndian.AppendUint16(nil, uint16(20+len(datagram))),
		[]byte{0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}, source.AsSlice(), dest.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return slicesOf(header, ip, datagram)
}

func udpDatagram(source, dest netip.Addr, port uint16, payload []byte) []byte {
	d := binary.BigEndian.AppendUint16(nil, 68)
	d = binary.BigEndian.AppendUint16(d, port)
	d = binary.BigEndian.AppendUint16(d, uint16(8+len(payload)))
	d = append(append(d, 0, 0), payload...)
	pseudo := slicesOf(source.AsSlice(), dest.AsSlice(), []byte{0, unix.IPPROTO_UDP}, binary.BigEndian.AppendUint16(nil, uint16(len(d))))
	binary.BigEndian.PutUint16(d[6:], checksum(slicesOf(pseudo, d)))
	return d
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
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
