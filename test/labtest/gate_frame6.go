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
