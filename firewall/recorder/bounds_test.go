package recorder

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Another machine that is awaited, and what nobody awaits.
const (
	nodeB     = "00000000-0000-4000-8000-00000000000b"
	machine2  = "52:54:00:00:00:02"
	stranger1 = "52:54:00:00:00:99"
	behindAt  = "198.51.100.60"
	relayAt   = "198.51.100.1"
)

var router = net.HardwareAddr{0x52, 0x54, 0, 0xdd, 0, 1}

// newCrowd is a stage where two machines are awaited, and whose frames are heard at once.
func newCrowd(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	if _, err := s.log.DoAsLeader(introspection.PutInspected{Nodes: []introspection.Inspected{
		{Node: nodeA, MACs: []string{machine1}}, {Node: nodeB, MACs: []string{machine2}}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) hear(now time.Time, frames ...[]byte) {
	for _, b := range frames {
		s.r.hear(b, own, now)
	}
}

// kept is what waits to be committed of a node, in words.
func (s *stage) kept(node string) string {
	if t := s.r.pending[node]; t != nil {
		return told(*t)
	}
	return ""
}

// requestFile is a request by TFTP.
func requestFile(from net.HardwareAddr, src, file string) []byte {
	return datagram(from, own, src, hostAt+":69", []byte("\x00\x01"+file+"\x00octet\x00"))
}

// lastBlock is all of a small file.
func lastBlock(to net.HardwareAddr, dst string) []byte {
	return datagram(own, to, hostAt+":4000", dst, []byte("\x00\x03\x00\x01the end"))
}

// granted is an answer that gives an address, through a relay if there is one.
func granted(t testing.TB, mac, at, relay string) []byte {
	t.Helper()
	b := give(t, own, hostAt, mac, dhcpv4.MessageTypeAck, "snponly.efi")
	body := b[rawsocket.EtherHeader+rawsocket.IP4Header+rawsocket.UDPHeader:]
	copy(body[16:], net.ParseIP(at).To4())
	if relay != "" {
		copy(body[24:], net.ParseIP(relay).To4())
	}
	return b
}

// Requests of files by machines that nobody awaits, and by one that floods, take nothing of a
// transfer of another.
func TestTransfersAreBounded(t *testing.T) {
	for name, flood := range map[string]func(i int) (mac, at string){
		"of strangers": func(i int) (string, string) {
			return fmt.Sprintf("52:54:02:00:%02x:%02x", i>>8, i&0xff), fmt.Sprintf("203.0.%d.%d:2070", i>>8, i&0xff)
		},
		"of one stranger from the machine's address": func(i int) (string, string) {
			return stranger1, fmt.Sprintf("%s:%d", given, 3000+i)
		},
		"of another machine": func(i int) (string, string) { return machine2, fmt.Sprintf("192.0.2.61:%d", 3000+i) },
	} {
		t.Run(name, func(t *testing.T) {
			s, now := newCrowd(t), time.Now()
			s.hear(now, granted(t, machine1, given, ""), requestFile(hardware(t, machine1), given+":2070", "snponly.efi"))
			for i := range 3 * maxTransfers {
				mac, at := flood(i)
				s.hear(now.Add(time.Duration(i)*sureShare*time.Millisecond), requestFile(hardware(t, mac), at, "x"))
			}
			if n := len(s.r.transfers.open); n > 1+transfersEach {
				t.Errorf("%d transfers are followed", n)
			}
			s.hear(now, lastBlock(hardware(t, machine1), given+":2070"))
			if got := s.kept(nodeA); got != "leased snponly.efi, fetched snponly.efi" {
				t.Errorf("told is %s", got)
			}
		})
	}
}

// Where more machines fetch than are followed, the one that is silent for longest makes room.
func TestTransfersOfAllAreBounded(t *testing.T) {
	ts, now := newTransfers(), time.Now()
	for i := range 2 * maxTransfers {
		mac := net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}
		f, _ := rawsocket.ReadFrame(requestFile(mac, fmt.Sprintf("203.0.%d.%d:2070", i>>8, i&0xff), "x"))
		ts.hear(f, mac.String(), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(ts.open) != maxTransfers || len(ts.of) != maxTransfers {
		t.Errorf("%d transfers of %d machines are followed", len(ts.open), len(ts.of))
	}
	if ts.open[netip.MustParseAddrPort("203.0.0.0:2070")] != nil {
		t.Error("the oldest transfer is followed still")
	}
	if ended := ts.quiet(now.Add(time.Hour)); len(ended) != maxTransfers || len(ts.open)+len(ts.of) > 0 {
		t.Errorf("%d transfers ended by silence, %d are left of %d machines", len(ended), len(ts.open), len(ts.of))
	}
}

// What others do from an address is never told as the machine's that was given it.
func TestAddressOfAnother(t *testing.T) {
	direct, relayed := granted(t, machine1, given, ""), granted(t, machine1, behindAt, relayAt)
	arp := func(mac, at string) []byte {
		b := binary.BigEndian.AppendUint16(slices.Concat(everybody, hardware(t, mac)), unix.ETH_P_ARP)
		b = append(b, 0, 1, 8, 0, 6, 4, 0, 1)
		b = append(append(b, hardware(t, mac)...), netip.MustParseAddr(at).AsSlice()...)
		return append(b, make([]byte, 10)...)
	}
	fetch := func(from net.HardwareAddr, at string) [][]byte {
		return [][]byte{requestFile(from, at+":2070", "x"), lastBlock(from, at+":2070")}
	}
	for name, c := range map[string]struct {
		frames [][]byte
		want   string
	}{
		"its own": {append([][]byte{direct, arp(machine1, given)}, fetch(hardware(t, machine1), given)...),
			"leased snponly.efi, spoke, fetched x"},
		"its own behind a router": {append([][]byte{relayed}, fetch(router, behindAt)...), "leased snponly.efi, fetched x"},
		"its own, renewed without the relay": {append([][]byte{relayed, granted(t, machine1, behindAt, "")},
			fetch(router, behindAt)...), "leased snponly.efi, leased snponly.efi, fetched x"},
		"a stranger fetches": {append([][]byte{direct}, fetch(hardware(t, stranger1), given)...),
			"leased snponly.efi"},
		"a stranger speaks":                 {[][]byte{direct, arp(stranger1, given)}, "leased snponly.efi"},
		"a stranger speaks behind a router": {[][]byte{relayed, arp(stranger1, behindAt)}, "leased snponly.efi"},
		"a stranger ends its transfer": {[][]byte{direct, requestFile(hardware(t, machine1), given+":2070", "x"),
			lastBlock(hardware(t, stranger1), given+":2070")}, "leased snponly.efi"},
		"given to a stranger": {append([][]byte{relayed, granted(t, stranger1, behindAt, relayAt)},
			fetch(router, behindAt)...), "leased snponly.efi"},
		"given to another machine": {append([][]byte{relayed, granted(t, machine2, behindAt, relayAt)},
			fetch(router, behindAt)...), "leased snponly.efi"},
		"it has another": {append([][]byte{relayed, granted(t, machine1, "198.51.100.61", relayAt)},
			fetch(router, behindAt)...), "leased snponly.efi, leased snponly.efi"},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := newCrowd(t), time.Now()
			for range strangersPerSecond { // nothing is left for reading what they are given
				s.r.strangers.budget.AllowN(now, 1)
			}
			s.hear(now, c.frames...)
			if got := s.kept(nodeA); got != c.want {
				t.Errorf("told is %q, want %q", got, c.want)
			}
		})
	}
}

// Addresses are as many as are said, each machine has one, and the oldest makes room.
func TestLeasesAreBounded(t *testing.T) {
	l := newLeases()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 2 * maxLeases {
		l.grant(at(i), machine1, false)
	}
	if l.byAddress.Len() != 1 || len(l.of) != 1 {
		t.Errorf("one machine has %d addresses, %d", l.byAddress.Len(), len(l.of))
	}
	for i := range 2 * maxLeases {
		l.grant(at(i), net.HardwareAddr{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}.String(), true)
	}
	if l.byAddress.Len() != maxLeases || len(l.of) != maxLeases {
		t.Errorf("%d addresses of %d machines are kept", l.byAddress.Len(), len(l.of))
	}
	if l.holder(at(0), own) != "" || l.holder(at(2*maxLeases-1), own) == "" {
		t.Error("the newest made room for the oldest")
	}
}

// A flood with the MAC of one machine that is awaited costs what its share is, and nothing of
// another's; a flood of answers to a machine nothing of what it asks itself.
func TestFloodOfAnAwaitedMAC(t *testing.T) {
	const flood = 20_000
	asks := func(mac string) func(int) []byte {
		b := ask(t, mac, dhcpv4.MessageTypeDiscover, firmware(7)...)
		return func(int) []byte { return b }
	}
	answers := func(i int) []byte {
		return give(t, foreign, fmt.Sprintf("203.0.%d.%d", i>>8, i&0xff), machine1, dhcpv4.MessageTypeOffer, "x")
	}
	files := func(i int) []byte {
		return requestFile(hardware(t, machine2), fmt.Sprintf("192.0.2.61:%d", 1024+i), "x")
	}
	for name, one := range map[string]func(int) []byte{"DISCOVER of another": asks(machine2), "answers": answers,
		"requests of files": files} {
		t.Run(name, func(t *testing.T) {
			s, now := newCrowd(t), time.Now()
			for i := range flood {
				s.hear(now, one(i))
			}
			s.hear(now, ask(t, machine1, dhcpv4.MessageTypeDiscover, firmware(7)...),
				requestFile(hardware(t, machine1), given+":2070", "x"), lastBlock(hardware(t, machine1), given+":2070"))
			if got := s.kept(nodeA); !strings.HasSuffix(got, "asked, fetched x") {
				t.Errorf("told is %s", got)
			}
			if s.r.unread != flood-fullShare {
				t.Errorf("of %d frames %d were not read", flood, s.r.unread)
			}
			for node, track := range s.r.pending {
				if len(track.Steps) > boots.MaxSteps {
					t.Errorf("%d steps of node %s are kept", len(track.Steps), node)
				}
			}
		})
	}
}

// Where all machines flood, each has its sure share, and the next second begins anew.
func TestShares(t *testing.T) {
	var s shares
	now := time.Now()
	machines := 2 * allShares / fullShare
	admitted := func(from int, now time.Time) (n int) {
		for i := range machines {
			for range 2 * fullShare {
				if s.admit(side{mac: fmt.Sprint(from + i)}, now) {
					n++
				}
			}
		}
		return n
	}
	if got, most := admitted(0, now), allShares+machines*sureShare; got > most {
		t.Errorf("%d messages are read in a second, more than %d", got, most)
	}
	if got := admitted(machines, now); got != machines*sureShare {
		t.Errorf("of the last machines %d messages are read, want %d", got, machines*sureShare)
	}
	if !s.admit(side{mac: "0"}, now.Add(time.Second)) || len(s.read) != 1 {
		t.Errorf("in the next second %d machines count", len(s.read))
	}
}

// A machine behind a relay of DHCPv6 is heard while strangers flood.
func TestRelayedSixIsHeard(t *testing.T) {
	mac := hardware(t, machine1)
	m, err := dhcpv6.NewSolicit(mac)
	if err != nil {
		t.Fatal(err)
	}
	peer := net.ParseIP("fe80::5054:ff:fe00:1")
	r, err := dhcpv6.EncapsulateRelay(m, dhcpv6.MessageTypeRelayForward, net.ParseIP("2001:db8:9::1"), peer)
	if err != nil {
		t.Fatal(err)
	}
	s, now := newCrowd(t), time.Now()
	for range strangersPerSecond {
		s.r.strangers.budget.AllowN(now, 1)
	}
	s.hear(now, datagram6(router, own, "[2001:db8::9]:547", "[ff05::1:3]:547", r.ToBytes()))
	if got := s.kept(nodeA); got != "asked" || s.r.pending[nodeA].Steps[0].Relay != "2001:db8:9::1" {
		t.Errorf("told is %q", got)
	}
}

func datagram6(from, to net.HardwareAddr, src, dst string, body []byte) []byte {
	at, end := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	b := binary.BigEndian.AppendUint16(slices.Concat(to, from), unix.ETH_P_IPV6)
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(rawsocket.UDPHeader+len(body)))
	b = append(b, unix.IPPROTO_UDP, 64)
	b = slices.Concat(b, at.Addr().AsSlice(), end.Addr().AsSlice())
	for _, n := range []uint16{at.Port(), end.Port(), uint16(rawsocket.UDPHeader + len(body)), 0} {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return append(b, body...)
}

// A block that comes in fragments, or is cut off, is not the end of its file.
func TestFragmentIsNotTheEnd(t *testing.T) {
	s, now := newCrowd(t), time.Now()
	machine := hardware(t, machine1)
	block := datagram(own, machine, hostAt+":4000", given+":2070",
		append([]byte{0, tftpData, 0, 1}, make([]byte, 8192)...))
	first := slices.Clone(block[:1514])
	first[16], first[17], first[20] = 1500>>8, 1500&0xff, 0x20 // its length, and that more fragments follow
	s.hear(now, requestFile(machine, given+":2070", "x"),
		datagram(own, machine, hostAt+":4000", given+":2070", []byte("\x00\x06blksize\x008192\x00")), first, block[:1600])
	if got := s.kept(nodeA); got != "" {
		t.Errorf("told is %s", got)
	}
	s.hear(now, lastBlock(machine, given+":2070"))
	if got := s.kept(nodeA); got != "fetched x" {
		t.Errorf("told is %s", got)
	}
}

// TestServerAgreesToNoBlock: a server that answers with blocks of no bytes is heard on.
func TestServerAgreesToNoBlock(t *testing.T) {
	s, now := newCrowd(t), time.Now()
	machine := hardware(t, machine1)
	s.hear(now, requestFile(machine, given+":2070", "x"),
		datagram(own, machine, hostAt+":4000", given+":2070", []byte("\x00\x06blksize\x000\x00")),
		lastBlock(machine, given+":2070"))
	if got := s.kept(nodeA); got != "fetched x" {
		t.Errorf("block-of-nothing: told is %s", got)
	}
}

// The next leader knows the address of a machine behind a router, from the track.
func TestNextLeaderKnowsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() { s.send(granted(t, machine1, behindAt, relayAt)) })
		s.led(func() {
			s.send(requestFile(router, behindAt+":2070", "x"))
			s.send(lastBlock(router, behindAt+":2070"))
		})
		if got := told(s.track()); got != "leased snponly.efi, unheard, fetched x" {
			t.Errorf("told is %s", got)
		}
	})
}

// A machine that another server has, or that was refused its address, is not told to look at TFTP.
func TestFindingsOfAnotherServer(t *testing.T) {
	for name, c := range map[string]struct {
		boot   func(*stage)
		denied string
		want   string
	}{
		"denied, and chooses a server that is not heard": {func(s *stage) {
			relayed := dhcpv4.WithGatewayIP(net.IPv4(198, 51, 100, 1))
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover, append(firmware(7), relayed)...))
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeRequest, relayed,
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(198, 51, 100, 9)))))
		}, "its relay's requests are dropped", "denied foreign-server"},
		"an offer that is refused": {func(s *stage) {
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover, firmware(7)...))
			s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"))
			s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeNak, ""))
		}, "", "refused-address"},
		"another server offers, and TFTP does not get through": {func(s *stage) {
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover, firmware(7)...))
			s.send(give(s.t, foreign, "192.0.2.9", machine1, dhcpv4.MessageTypeOffer, ""))
			s.lease("snponly.efi", firmware(7)...)
		}, "", "foreign-server not-fetched"},
	} {
		finds(t, name, c.boot, c.denied, c.want)
	}
}

// FuzzHear hears frames of anybody, each behind its length in two bytes: none ends the recorder,
// what is kept is within its bounds, and the log takes it.
func FuzzHear(f *testing.F) {
	machine := hardware(f, machine1)
	pack := func(frames ...[]byte) (b []byte) {
		for _, frame := range frames {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(frame))), frame...)
		}
		return b
	}
	tagged := append(slices.Concat(everybody, machine, []byte{0x81, 0, 0, 5}), make([]byte, 60)...)
	extended := datagram6(machine, own, "[fe80::1]:546", "[ff02::1:2]:547", make([]byte, 40))
	extended[20] = 44 // a fragment's header
	late := ask(f, machine1, dhcpv4.MessageTypeDiscover)
	late[20], late[21] = 0x20, 0xb9
	f.Add(pack(ask(f, machine1, dhcpv4.MessageTypeDiscover, ipxe()...),
		give(f, own, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"), granted(f, machine1, given, relayAt)))
	f.Add(pack(granted(f, machine1, given, ""), requestFile(machine, given+":2070", "x"),
		datagram(own, machine, hostAt+":4000", given+":2070", []byte("\x00\x06tsize\x009\x00blksize\x001408\x00")),
		lastBlock(machine, given+":2070")))
	f.Add(pack(requestFile(machine, given+":2070", "x"),
		datagram(machine, own, given+":2070", hostAt+":4000", []byte("\x00\x05\x00\x00no\x00"))))
	f.Add(pack(granted(f, machine1, given, ""), segment(machine, own, given+":4000", hostAt+":80", "GET / HTTP/1.1\r\n"),
		segment(own, machine, hostAt+":80", given+":4000", "HTTP/1.1 404 Not Found\r\n")))
	f.Add(pack(tagged, extended, late, ask(f, machine1, dhcpv4.MessageTypeDiscover)[:60]))
	solicit, err := dhcpv6.NewSolicit(machine)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pack(datagram6(machine, own, "[fe80::1]:546", "[ff02::1:2]:547", solicit.ToBytes())))
	log := newStage(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &stage{t: t, log: log.log}
		s.r = New(s, s, "a", log.r.logger)
		now := time.Now()
		for frames := 0; len(b) >= 2 && frames < 200; frames++ {
			n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
			s.hear(now, b[2:2+n])
			b = b[2+n:]
		}
		for _, step := range s.r.transfers.quiet(now.Add(time.Hour)) {
			s.r.add(s.log.View(), step, now)
		}
		if len(s.r.transfers.open)+len(s.r.transfers.of) > 0 || s.r.leases.byAddress.Len() != len(s.r.leases.of) ||
			len(s.r.pending) > 1 {
			t.Errorf("kept are %d transfers, %d leases, %d tracks", len(s.r.transfers.open), len(s.r.leases.of),
				len(s.r.pending))
		}
		for _, track := range s.r.pending {
			for _, step := range track.Steps {
				if err := (boots.Note{Heard: []boots.Heard{{Node: nodeA, Step: step}}}).Validate(); err != nil {
					t.Errorf("%+v: %v", step, err)
				}
			}
		}
	})
}
