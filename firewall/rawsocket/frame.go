package recorder

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Lengths of headers, in bytes.
const (
	etherHeader = 14
	ip4Header   = 20 // without options
	ip6Header   = 40 // extension headers are not followed: boot traffic has none
	udpHeader   = 8
	tcpHeader   = 20 // without options
)

// frame is what the recorder reads of one frame on the wire. Its slices are the frame's.
type frame struct {
	from, to net.HardwareAddr
	ether    uint16 // its EtherType
	proto    uint8  // of IP
	src, dst netip.AddrPort
	body     []byte // of the datagram or segment, as far as it is in the frame; of an ARP packet all of it
	size     int    // of the body of a datagram that is whole: fragments and frames that are cut off have less
}

// readFrame takes the headers off a frame. ok is false for what is cut off in them, for
// fragments but the first, and for what is neither ARP nor UDP nor TCP.
func readFrame(b []byte) (f frame, ok bool) {
	if len(b) < etherHeader {
		return f, false
	}
	f.to, f.from, f.ether = net.HardwareAddr(b[:6]), net.HardwareAddr(b[6:12]), binary.BigEndian.Uint16(b[12:])
	b = b[etherHeader:]
	switch f.ether {
	case unix.ETH_P_ARP:
		f.body = b
		return f, true
	case unix.ETH_P_IP:
		return f, f.readIP4(b)
	case unix.ETH_P_IPV6:
		return f, f.readIP6(b)
	}
	return f, false
}

func (f *frame) readIP4(b []byte) bool {
	if len(b) < ip4Header || b[0]>>4 != 4 || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
		return false
	}
	header, total := 4*int(b[0]&0x0f), int(binary.BigEndian.Uint16(b[2:]))
	if header < ip4Header || total < header || len(b) < header {
		return false
	}
	f.proto = b[9]
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	return f.readPorts(src, dst, b[header:min(total, len(b))])
}

func (f *frame) readIP6(b []byte) bool {
	if len(b) < ip6Header || b[0]>>4 != 6 {
		return false
	}
	f.proto = b[6]
	total := ip6Header + int(binary.BigEndian.Uint16(b[4:]))
	return f.readPorts(netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])),
		b[ip6Header:min(total, len(b))])
}

// readPorts reads the header of UDP or TCP.
func (f *frame) readPorts(src, dst netip.Addr, b []byte) bool {
	header := 0
	switch {
	case f.proto == unix.IPPROTO_UDP && len(b) >= udpHeader:
		header = udpHeader
	case f.proto == unix.IPPROTO_TCP && len(b) >= tcpHeader:
		header = 4 * int(b[12]>>4)
		if header < tcpHeader || header > len(b) {
			return false
		}
	default:
		return false
	}
	f.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
	f.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	f.body = b[header:]
	if f.proto == unix.IPPROTO_UDP {
		f.size = int(binary.BigEndian.Uint16(b[4:])) - udpHeader
		if f.size < 0 {
			return false
		}
		f.body = f.body[:min(f.size, len(f.body))]
	}
	return true
}

// arpSender is who an ARP packet says that it is from; ok is false if it names no address.
func (f frame) arpSender() (mac net.HardwareAddr, at netip.Addr, ok bool) {
	const hardware, protocol, sender, source, length = 1, 2, 8, 14, 28
	b := f.body
	if f.ether != unix.ETH_P_ARP || len(b) < length || binary.BigEndian.Uint16(b) != hardware ||
		binary.BigEndian.Uint16(b[protocol:]) != unix.ETH_P_IP || b[4] != 6 || b[5] != 4 {
		return nil, at, false
	}
	at = netip.AddrFrom4([4]byte(b[source : source+4]))
	return net.HardwareAddr(b[sender : sender+6]), at, !at.IsUnspecified()
}
