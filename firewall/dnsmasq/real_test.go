//go:build e2e

package dnsmasq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The two ends of the cable: machines boot at far, dnsmasq listens at near.
const (
	near = "pxe0"
	far  = "machine0"
)

const (
	// waitLimit bounds the wait for dnsmasq to follow the files, which takes
	// milliseconds.
	waitLimit = 30 * time.Second
	// hearing is how long an answer may take.
	hearing = 200 * time.Millisecond
)

// served is a host with its own dnsmasq, which runs as an ordinary user, and the
// end of a cable at which machines ask.
type served struct {
	t     *testing.T
	hosts *Hosts
	wire  rawsocket.Socket
	count byte // of requests, so that answers can be told from one another
}

// serve makes a host whose dnsmasq reads a directory that was prepared by a unit
// with a narrow umask. The thread of the test is on the host, and ends with it.
func serve(t *testing.T) *served {
	t.Helper()
	testenv.NeedRoot(t)
	runtime.LockOSThread() // never unlocked
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: near}, PeerName: far}))
	for _, name := range []string{near, far, "lo"} {
		link, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(link))
		if name == near {
			must(t, netlink.AddrAdd(link,
				&netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}))
		}
	}
	dir, err := os.MkdirTemp("/run", "trivet-test-") // a test's own directories are closed to dnsmasq
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "hosts")
	old := syscall.Umask(0o077)
	must(t, Prepare(t.Context(), path))
	hosts, err := New(path)
	must(t, err)
	t.Cleanup(func() { must(t, hosts.Close()); syscall.Umask(old) })
	link, err := netlink.LinkByName(far)
	must(t, err)
	wire, err := rawsocket.Open(link.Attrs().Index, unix.ETH_P_IP, nil)
	must(t, err)
	t.Cleanup(func() { must(t, wire.Close()) })
	s := &served{t: t, hosts: hosts, wire: wire}
	s.start(dir)
	return s
}

// start starts dnsmasq and waits until it listens.
func (s *served) start(dir string) {
	s.t.Helper()
	log := filepath.Join(dir, "log")
	cmd := exec.Command("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=nobody",
		"--interface="+near, "--bind-dynamic",
		"--dhcp-range=192.0.2.50,192.0.2.250,255.255.255.0,120s", "--dhcp-sequential-ip", "--no-ping",
		"--dhcp-hostsdir="+s.hosts.dir.path,
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"), "--log-facility="+log)
	must(s.t, cmd.Start())
	s.t.Cleanup(func() {
		must(s.t, cmd.Process.Signal(syscall.SIGTERM))
		must(s.t, cmd.Wait())
	})
	s.eventually("dnsmasq has started", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "DHCP, IP range")
	})
}

func (s *served) eventually(what string, ok func() bool) {
	s.t.Helper()
	testwait.UntilWithin(s.t, waitLimit, what, ok)
}

// offered asks for an address, and reports whether there was an offer.
func (s *served) offered(frame, client string) bool {
	s.t.Helper()
	s.count++
	request := discover(s.t, frame, client, s.count)
	must(s.t, s.wire.Send(request))
	must(s.t, s.wire.SetReadDeadline(time.Now().Add(hearing)))
	buf := make([]byte, rawsocket.MaxFrame)
	for {
		n, err := s.wire.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		must(s.t, err)
		if n > 50 && buf[42] == 2 && string(buf[46:50]) == string(request[46:50]) {
			return true
		}
	}
}

// wants waits until machines get an offer, or none, as told.
func (s *served) wants(what string, want map[string]bool) {
	s.t.Helper()
	for mac, offer := range want {
		s.eventually(fmt.Sprintf("%s: an offer to %s: %v", what, mac, offer),
			func() bool { return s.offered(mac, mac) == offer })
	}
}

// discover is a DHCPDISCOVER from a frame's source, about a client.
func discover(t *testing.T, frame, client string, n byte) []byte {
	t.Helper()
	from, err := net.ParseMAC(frame)
	must(t, err)
	about, err := net.ParseMAC(client)
	must(t, err)
	bootp := make([]byte, 236, 300)
	bootp[0], bootp[1], bootp[2], bootp[4], bootp[7], bootp[10] = 1, 1, 6, 0x74, n, 0x80
	copy(bootp[28:], about)
	bootp = append(bootp, "\x63\x82\x53\x63\x35\x01\x01\xff"...)
	bootp = append(bootp, make([]byte, 300-len(bootp))...)
	udp := binary.BigEndian.AppendUint32(nil, 68<<16|67)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(bootp)))
	udp = append(append(udp, 0, 0), bootp...) // no checksum, which IPv4 allows
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum&0xffff))
	head := append([]byte{255, 255, 255, 255, 255, 255}, from...)
	return append(append(append(head, 8, 0), ip...), udp...)
}

// TestDnsmasqFollows programs the files and asks the real dnsmasq what it makes
// of them, as it runs.
func TestDnsmasqFollows(t *testing.T) {
	s, ctx := serve(t), t.Context()
	const unknown = "52:54:00:00:00:77"
	s.wants("prepared", map[string]bool{booting: false, denied: false, unknown: false})
	must(t, s.hosts.Replace(ctx, rules))
	s.wants("a leader's rules", map[string]bool{booting: true, denied: false, unknown: true})
	s.eventually("an offer to what is unknown, in a frame of what is denied",
		func() bool { return s.offered(denied, unknown) })
	if s.offered(unknown, denied) {
		t.Error("the frame's source was compared, not the client's address")
	}
	yes, no := true, false
	for _, step := range []struct {
		what   string
		change firewall.Change
		want   map[string]bool
	}{
		{"denied becomes allowed", firewall.Change{Allow: []string{denied}}, map[string]bool{denied: true}},
		{"and denied again", firewall.Change{Unallow: []string{denied}}, map[string]bool{denied: false}},
		{"one leaves both lists", firewall.Change{Undeny: []string{denied}}, map[string]bool{denied: true, unknown: true}},
		{"the pass rule goes", firewall.Change{Pass: &no}, map[string]bool{denied: false, unknown: false, booting: true}},
		{"the pass rule comes", firewall.Change{Pass: &yes, Deny: []string{other}},
			map[string]bool{denied: true, unknown: true, other: false}},
	} {
		must(t, s.hosts.Change(ctx, step.change))
		s.wants(step.what, step.want)
	}
	must(t, s.hosts.Seal(ctx))
	s.wants("sealed", map[string]bool{booting: false, denied: false, other: false, unknown: false})
}

// TestDnsmasqForgetsNothing shows why files are rewritten and never removed: of
// one that is removed dnsmasq keeps the last word, until a file says otherwise.
func TestDnsmasqForgetsNothing(t *testing.T) {
	s, ctx := serve(t), t.Context()
	must(t, s.hosts.Replace(ctx, rules))
	s.wants("a leader's rules", map[string]bool{booting: true, denied: false})
	must(t, os.Remove(filepath.Join(s.hosts.dir.path, booting)))
	must(t, s.hosts.dir.write(unknownFile, unknownText(false)))
	s.wants("the pass rule goes", map[string]bool{"52:54:00:00:00:77": false})
	// If it is not: dnsmasq notices now that a file is removed, and the package's comment is out of date.
	s.wants("dnsmasq forgets nothing", map[string]bool{booting: true})
	must(t, s.hosts.Replace(ctx, firewall.Ruleset{}))
	s.wants("written again", map[string]bool{booting: false})
}

// TestDnsmasqOfManyMachines writes 10,000 files, and a change among them, while
// dnsmasq reads, and wants none to be lost.
func TestDnsmasqOfManyMachines(t *testing.T) {
	s, ctx := serve(t), t.Context()
	r := many(10_000)
	began := time.Now()
	must(t, s.hosts.Replace(ctx, r))
	wrote := time.Since(began)
	for _, mac := range []string{r.Deny[0], r.Deny[burst-1], r.Deny[burst], r.Deny[len(r.Deny)-1]} {
		s.wants("of many", map[string]bool{mac: false})
	}
	s.wants("of many", map[string]bool{"52:54:00:00:00:77": true})
	began = time.Now()
	must(t, s.hosts.Change(ctx, firewall.Change{Allow: r.Deny[:1]}))
	changed := time.Since(began)
	s.wants("one of many", map[string]bool{r.Deny[0]: true, r.Deny[1]: false})
	t.Logf("10,000 files were written in %v, one in %v", wrote, changed)
	testenv.Took(t, "firewall.dnsmasq_change_10000", time.Since(began), 3*time.Second)
}
