//go:build e2e

package labtest

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// question is something that is asked on a LAN again and again, and that one
// host at a time may answer.
type question interface {
	// frame is the n-th time it is asked.
	frame(n int) []byte
	// answer reads a frame: which time it answers, by its lowest bits if there
	// is no room for more, and the number of the host that does.
	answer(frame []byte) (n, bits, host int, ok bool)
}

// Places in a frame and in a BOOTP message (RFC 791, RFC 951), for headers
// without options, as the DHCP servers of the lab send them.
const (
	frameHead  = 14
	atUDP      = frameHead + 20
	atBOOTP    = atUDP + 8
	atXID      = atBOOTP + 4
	atChaddr   = atBOOTP + 28
	atOptions  = atBOOTP + 240
	atSourceIP = frameHead + 12
)

// discover is the question of a machine that wants to boot: who offers?
type discover struct {
	mac    net.HardwareAddr
	family uint32 // the first byte of its transaction IDs
	relay  *relay // nil: it is asked on the machine's own link
}

// relay is a router that asks on behalf of machines behind it, all servers of
// the link at once: its helper address is the link's broadcast.
type relay struct {
	mac      net.HardwareAddr
	from, to net.IP
}

const timeBits = 24 // of a transaction ID

func (d discover) xid(n int) uint32 { return d.family<<timeBits | uint32(n) }

func (d discover) frame(n int) []byte {
	bootp := make([]byte, 300)
	bootp[0], bootp[1], bootp[2] = 1, 1, 6 // a request, from Ethernet
	binary.BigEndian.PutUint32(bootp[4:], d.xid(n))
	bootp[10] = 0x80 // the answer goes to all
	copy(bootp[28:], d.mac)
	copy(bootp[236:], "\x63\x82\x53\x63\x35\x01\x01\xff") // magic, option 53: DISCOVER, end
	if d.relay == nil {
		return append(ethernet(d.mac, unix.ETH_P_IP), datagram(68, net.IPv4zero, net.IPv4bcast, bootp)...)
	}
	bootp[3] = 1 // hops
	copy(bootp[24:], d.relay.from.To4())
	return append(ethernet(d.relay.mac, unix.ETH_P_IP), datagram(67, d.relay.from, d.relay.to, bootp)...)
}

// datagram carries a message to the port of DHCP servers.
func datagram(port byte, from, to net.IP, message []byte) []byte {
	udp := binary.BigEndian.AppendUint16([]byte{0, port, 0, 67}, uint16(8+len(message)))
	udp = append(append(udp, 0, 0), message...) // without a checksum, which IPv4 allows
	ip := []byte{0x45, 0}
	ip = binary.BigEndian.AppendUint16(ip, uint16(20+len(udp)))
	ip = append(ip, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0)
	ip = append(append(ip, from.To4()...), to.To4()...)
	binary.BigEndian.PutUint16(ip[10:], rawsocket.Checksum(ip))
	return append(ip, udp...)
}

func (d discover) answer(frame []byte) (n, bits, host int, ok bool) {
	if len(frame) < atOptions || frame[frameHead] != 0x45 || frame[frameHead+9] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(frame[atUDP:]) != 67 || !bytes.Equal(frame[atChaddr:atChaddr+6], d.mac) {
		return 0, 0, 0, false
	}
	xid := binary.BigEndian.Uint32(frame[atXID:])
	return int(xid & (1<<timeBits - 1)), timeBits, server(frame), xid>>timeBits == d.family
}

// server is the host that a DHCP answer names as its server (option 54), or
// that it came from.
func server(frame []byte) int {
	for options := frame[atOptions:]; len(options) > 1 && options[0] != 0xff; {
		if options[0] == 0 {
			options = options[1:]
			continue
		}
		end := 2 + int(options[1])
		if end > len(options) {
			break
		}
		if options[0] == 54 && end == 6 {
			return int(options[5])
		}
		options = options[end:]
	}
	return int(frame[atSourceIP+3])
}

// whoHas is the question who has an IPv4 address. Each time it is asked on
// behalf of another neighbour, so that the answer tells which time it is for.
type whoHas struct {
	mac     net.HardwareAddr
	address net.IP
}

// Neighbours that whoHas asks for: the site's addresses 128 to 191.
const (
	neighbourBits  = 6
	firstNeighbour = 128
)

func (w whoHas) frame(n int) []byte {
	from := bytes.Clone(w.address.To4())
	from[3] = byte(firstNeighbour + n&(1<<neighbourBits-1))
	arp := []byte{0, 1, 8, 0, 6, 4, 0, 1} // a request, of IPv4 on Ethernet (RFC 826)
	arp = append(append(arp, w.mac...), from...)
	arp = append(append(arp, make([]byte, 6)...), w.address.To4()...)
	return append(ethernet(w.mac, unix.ETH_P_ARP), arp...)
}

func (w whoHas) answer(frame []byte) (n, bits, host int, ok bool) {
	const operation, sender, senderIP, targetIP = frameHead + 6, frameHead + 8, frameHead + 14, frameHead + 24
	if len(frame) < targetIP+4 || frame[operation+1] != 2 || !bytes.Equal(frame[senderIP:senderIP+4], w.address.To4()) {
		return 0, 0, 0, false
	}
	n = int(frame[targetIP+3]) - firstNeighbour
	return n, neighbourBits, int(frame[sender+5]), n >= 0 && n < 1<<neighbourBits
}

// ethernet begins a frame to everybody.
func ethernet(from net.HardwareAddr, protocol uint16) []byte {
	return binary.BigEndian.AppendUint16(append(bytes.Repeat([]byte{0xff}, 6), from...), protocol)
}

// Places in a frame of IPv6 (RFC 8200) without extension headers, in a DHCPv6
// message (RFC 8415 section 8) and in a neighbour advertisement (RFC 4861
// section 4.4).
const (
	atHeader6 = frameHead + 6
	atTo6     = frameHead + 24
	atBody6   = frameHead + 40
	atDHCP6   = atBody6 + 8
	atTarget6 = atBody6 + 8
	endTarget = atTarget6 + 16
)

// Numbers of DHCPv6.
const (
	solicitKind   = 1
	advertiseKind = 2
	optionClient  = 1
	optionAddress = 3 // an association of identity for non-temporary addresses
	optionElapsed = 8
)

// solicit is the question of a machine that wants to boot over IPv6: who
// advertises?
type solicit struct{ mac net.HardwareAddr }

// linkLocal is the address that an interface makes of its MAC (RFC 4291
// appendix A).
func linkLocal(mac net.HardwareAddr) netip.Addr {
	ip := [16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe}
	copy(ip[13:], mac[3:])
	return netip.AddrFrom16(ip)
}

// duid is what a machine calls itself: by its MAC (RFC 8415 section 11.4).
func (s solicit) duid() []byte { return append([]byte{0, 3, 0, 1}, s.mac...) }

// message is the n-th time it is asked.
func (s solicit) message(n int) []byte {
	message := binary.BigEndian.AppendUint32(nil, solicitKind<<timeBits|uint32(n)&(1<<timeBits-1))
	message = option6(message, optionClient, s.duid())
	message = option6(message, optionElapsed, []byte{0, 0})
	return option6(message, optionAddress, make([]byte, 12))
}

func (s solicit) frame(n int) []byte {
	return frame6(s.mac, linkLocal(s.mac), netip.MustParseAddr("ff02::1:2"), unix.IPPROTO_UDP, 6, udp6(546, s.message(n)))
}

// udp6 carries a message of even length to the port of DHCPv6 servers; the sum
// is left to frame6.
func udp6(port uint32, message []byte) []byte {
	udp := binary.BigEndian.AppendUint32(nil, port<<16|547)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(message)))
	return append(append(udp, 0, 0), message...)
}

func option6(message []byte, code uint16, value []byte) []byte {
	message = binary.BigEndian.AppendUint16(message, code)
	message = binary.BigEndian.AppendUint16(message, uint16(len(value)))
	return append(message, value...)
}

// answer takes the sender's word for who answers: dnsmasq names itself by a
// DUID that says nothing of the host.
func (s solicit) answer(frame []byte) (n, bits, host int, ok bool) {
	if len(frame) < atDHCP6+4 || frame[atHeader6] != unix.IPPROTO_UDP || frame[atDHCP6] != advertiseKind ||
		binary.BigEndian.Uint16(frame[atBody6:]) != 547 || !bytes.Equal(client6(frame[atDHCP6:]), s.duid()) {
		return 0, 0, 0, false
	}
	xid := binary.BigEndian.Uint32(frame[atDHCP6:])
	return int(xid & (1<<timeBits - 1)), timeBits, int(frame[11]), true
}

// options6 walks the options of a DHCPv6 message.
func options6(rest []byte) func(func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(rest) >= 4 {
			end := 4 + int(binary.BigEndian.Uint16(rest[2:]))
			if end > len(rest) || !yield(int(binary.BigEndian.Uint16(rest)), rest[4:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// client6 is the machine that a DHCPv6 message is about.
func client6(message []byte) []byte {
	for code, value := range options6(message[4:]) {
		if code == optionClient {
			return value
		}
	}
	return nil
}

// whoIs is the question who has an IPv6 address, asked as whoHas is: on behalf
// of one of as many neighbours.
type whoIs struct {
	mac     net.HardwareAddr
	address netip.Addr
}

// behalf is the neighbour for whom it is asked the n-th time.
func (w whoIs) behalf(n int) netip.Addr {
	from := linkLocal(w.mac).As16()
	from[15] = byte(firstNeighbour + n&(1<<neighbourBits-1))
	return netip.AddrFrom16(from)
}

func (w whoIs) frame(n int) []byte {
	group := [16]byte{0: 0xff, 1: 0x02, 11: 0x01, 12: 0xff}
	target := w.address.As16()
	copy(group[13:], target[13:])
	body := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, target[:]...) // a neighbour solicitation
	body = append(append(body, 1, 1), w.mac...)                    // where to send the answer
	return frame6(w.mac, w.behalf(n), netip.AddrFrom16(group), unix.IPPROTO_ICMPV6, 2, body)
}

func (w whoIs) answer(frame []byte) (n, bits, host int, ok bool) {
	if len(frame) < endTarget || frame[atHeader6] != unix.IPPROTO_ICMPV6 || frame[atBody6] != 136 ||
		!bytes.Equal(frame[atTarget6:endTarget], w.address.AsSlice()) {
		return 0, 0, 0, false
	}
	n = int(frame[atTo6+15]) - firstNeighbour
	to := netip.AddrFrom16([16]byte(frame[atTo6 : atTo6+16]))
	return n, neighbourBits, int(frame[11]), n >= 0 && n < 1<<neighbourBits && to == w.behalf(n)
}

// frame6 puts a body into a frame for a group; its checksum, still zero, is at
// a place in it.
func frame6(mac net.HardwareAddr, from, to netip.Addr, protocol byte, sum int, body []byte) []byte {
	group := to.As16()
	frame := append(append([]byte{0x33, 0x33}, group[12:]...), mac...) // RFC 2464 section 7
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IPV6)
	return append(frame, rawsocket.Packet(from, to, protocol, 255, sum, body)...) // no router forwards what neighbours say
}
