package floatingip

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

var (
	ipv4 = netip.MustParseAddr("192.0.2.10")
	ip6  = netip.MustParseAddr("2001:db8::12:3456")
	ours = mac{0x02, 0x00, 0x5e, 0x10, 0x00, 0x01}
)

// written reads hexadecimal bytes, one field of a packet to a word.
func written(t testing.TB, words ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(words, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFrames(t *testing.T) {
	request := written(t, "ffffffffffff 02005e100001 0806", // RFC 826: to, from, ARP
		"0001 0800 06 04 0001",  // Ethernet, IPv4, lengths of both addresses, request
		"02005e100001 c000020a", // sender
		"000000000000 c000020a") // target; RFC 5227 §2.3 wants the same address
	reply := written(t, "ffffffffffff 02005e100001 0806",
		"0001 0800 06 04 0002",
		"02005e100001 c000020a",
		"02005e100001 c000020a") // RFC 5944 §4.6: the MAC to remember here too
	question := written(t, "ffffffffffff 02005e100001 0806",
		"0001 0800 06 04 0001",
		"02005e100001 00000000", // RFC 5227 §2.1.1: from nobody
		"000000000000 c000020a")
	unsolicited := written(t, "333300000001 02005e100001 86dd", // RFC 2464 §7: the group's MAC
		"6 00 00000 0020 3a ff",            // RFC 8200 §3: version, class, flow, length 32, ICMPv6, 255 hops
		"20010db8000000000000000000123456", // from the address itself
		"ff020000000000000000000000000001", // to all nodes on the link
		"88 00 324c 20000000",              // RFC 4861 §4.4: advertisement, code, checksum, override alone
		"20010db8000000000000000000123456", // target
		"02 01 02005e100001")               // option 2, of 8 bytes: the target's MAC
	solicitation := written(t, "3333ff123456 02005e100001 86dd",
		"6 00 00000 0018 3a ff",            // length 24
		"00000000000000000000000000000000", // RFC 4862 §5.4.2: from nobody
		"ff0200000000000000000001ff123456", // RFC 4291 §2.7.1: to those whose address ends like this
		"87 00 e41e 00000000",              // RFC 4861 §4.3: solicitation, code, checksum, reserved
		"20010db8000000000000000000123456") // target, and no option: the sender is nobody

	for _, tt := range []struct {
		name string
		got  []byte
		want []byte
	}{
		{"ARP announcement, request", announcements(ipv4, ours)[0], request},
		{"ARP announcement, reply", announcements(ipv4, ours)[1], reply},
		{"ARP probe", probe(ipv4, ours), question},
		{"unsolicited advertisement", announcements(ip6, ours)[0], unsolicited},
		{"solicitation of a probe", probe(ip6, ours), solicitation},
	} {
		if !bytes.Equal(tt.got, tt.want) {
			t.Errorf("%s:\n got %x\nwant %x", tt.name, tt.got, tt.want)
		}
	}
}

// TestChecksums compares with an implementation that is not ours.
func TestChecksums(t *testing.T) {
	for _, frame := range [][]byte{announcements(ip6, ours)[0], probe(ip6, ours)} {
		message, err := icmp.ParseMessage(58, frame[atICMP:])
		if err != nil {
			t.Fatal(err)
		}
		from, to := frame[atPayload+8:atPayload+24], frame[atPayload+24:atICMP]
		want, err := message.Marshal(icmp.IPv6PseudoHeader(from, to))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(frame[atICMP:], want) {
			t.Errorf("%v:\n got %x\nwant %x", message.Type, frame[atICMP:], want)
		}
		if message.Type != ipv6.ICMPTypeNeighborAdvertisement && message.Type != ipv6.ICMPTypeNeighborSolicitation {
			t.Errorf("it is a %v", message.Type)
		}
	}
}

// changed returns frame with other bytes at a place.
func changed(frame []byte, at int, with ...byte) []byte {
	frame = bytes.Clone(frame)
	copy(frame[at:], with)
	return frame
}

func TestClaims(t *testing.T) {
	theirs := mac{0x02, 0, 0, 0, 0, 0x22}
	inARP := announcements(ipv4, theirs)[0]
	inNDP := announcements(ip6, theirs)[0]
	bare := inNDP[:len(inNDP)-8]
	for _, tt := range []struct {
		name  string
		ip    netip.Addr
		frame []byte
		want  mac // zero: no claim
	}{
		{"ARP request from it", ipv4, inARP, theirs},
		{"ARP reply from it", ipv4, announcements(ipv4, theirs)[1], theirs},
		{"ARP, padded to a frame's least length", ipv4, append(bytes.Clone(inARP), make([]byte, 18)...), theirs},
		{"ARP probe for it", ipv4, probe(ipv4, theirs), mac{}},
		{"ARP from another", ipv4, announcements(ipv4.Next(), theirs)[0], mac{}},
		{"ARP cut short", ipv4, inARP[:len(inARP)-1], mac{}},
		{"ARP for another hardware", ipv4, changed(inARP, atPayload+1, 6), mac{}},
		{"not ARP", ipv4, changed(inARP, atEtherType, 0x08, 0x00), mac{}},

		{"advertisement of it", ip6, inNDP, theirs},
		{"advertisement without a MAC", ip6, bare, theirs},
		{"advertisement through a proxy", ip6, changed(inNDP, 6, ours[:]...), theirs},
		{"advertisement with another option first", ip6,
			append(append(bytes.Clone(bare), 14, 1, 9, 9, 9, 9, 9, 9), inNDP[len(bare):]...), theirs},
		{"advertisement with an option without end", ip6, append(bytes.Clone(bare), 2, 0, 9, 9, 9, 9, 9, 9), theirs},
		{"advertisement with an option beyond the end", ip6, append(bytes.Clone(bare), 2, 2, 9, 9, 9, 9, 9, 9), theirs},
		{"advertisement cut short", ip6, bare[:len(bare)-1], mac{}},
		{"advertisement of another", ip6, announcements(ip6.Next(), theirs)[0], mac{}},
		{"advertisement that a router forwarded", ip6, changed(inNDP, atHopLimit, 254), mac{}},
		{"solicitation of it", ip6, probe(ip6, theirs), mac{}},
		{"not ICMP", ip6, changed(inNDP, atNextHeader, 17), mac{}},
		{"not IPv6", ip6, changed(inNDP, atEtherType, 0x08, 0x00), mac{}},
	} {
		got, ok := claimant(tt.ip, tt.frame)
		if got != tt.want || ok != (tt.want != mac{}) {
			t.Errorf("%s: claimed by %x, %v, want %x", tt.name, got, ok, tt.want)
		}
	}
}

// passes runs the kernel's filter for the claims of ip.
func passes(t testing.TB, ip netip.Addr, frame []byte) bool {
	t.Helper()
	raw, err := claims(ip)
	if err != nil {
		t.Fatal(err)
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has instructions of no known kind")
	}
	machine, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	n, err := machine.Run(frame)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestFilterKeepsOutWhatIsNotRead(t *testing.T) {
	for name, frame := range map[string][]byte{
		"ARP of another":                announcements(ipv4.Next(), ours)[0],
		"an ARP probe":                  probe(ipv4, ours),
		"a frame without a payload":     ethernet(broadcast(), ours, 0x0806),
		"an advertisement of another":   announcements(ip6.Next(), ours)[0],
		"a solicitation":                probe(ip6, ours),
		"an advertisement of one alike": changed(announcements(ip6, ours)[0], atICMPTarget, 0xfe),
	} {
		if passes(t, ipv4, frame) || passes(t, ip6, frame) {
			t.Errorf("%s passes", name)
		}
	}
}

// FuzzClaimant looks for a frame that cannot be read, and for a claim that the
// kernel's filter would have kept from us.
func FuzzClaimant(f *testing.F) {
	for _, ip := range []netip.Addr{ipv4, ip6} {
		for _, frame := range append(announcements(ip, ours), probe(ip, ours)) {
			f.Add(frame)
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, ip := range []netip.Addr{ipv4, ip6} {
			if _, ok := claimant(ip, frame); ok && !passes(t, ip, frame) {
				t.Errorf("a claim of %s does not pass: %x", ip, frame)
			}
		}
	})
}
