package rawsocket

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Lengths of headers, in bytes.
const (
	EtherHeader = 14
	IP4Header   = 20 // without options
	IP6Header   = 40 // extension headers are not followed: boot traffic has none
	UDPHeader   = 8
	TCPHeader   = 20 // without options
)

// Frame is what is read of one frame on the wire. Its slices are the frame's.
type Frame struct {
	From, To net.HardwareAddr
	Ether    uint16 // its EtherType
	Proto    uint8  // of IP
	Src, Dst netip.AddrPort
	Body     []byte // of the datagram or segment, as far as it is in the frame; of an ARP packet all of it
	Size     int    // of the body of a datagram that is whole: fragments and frames that are cut off have less
}

// ReadFrame takes the headers off a frame. ok is false for what is cut off in them, for
// fragments but the first, and for what is neither ARP nor UDP nor TCP. Checksums are not
// compared: between virtual interfaces the sender leaves them to hardware that no frame passes.
func ReadFrame(b []byte) (f Frame, ok bool) {
	if len(b) < EtherHeader {
		return f, false
	}
	f.To, f.From, f.Ether = net.HardwareAddr(b[:6]), net.HardwareAddr(b[6:12]), binary.BigEndian.Uint16(b[12:])
	b = b[EtherHeader:]
	switch f.Ether {
	case unix.ETH_P_ARP:
		f.Body = b
		return f, true
	case unix.ETH_P_IP:
		if len(b) < IP4Header || b[0]>>4 != 4 || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
			return f, false
		}
		header, total := 4*int(b[0]&0x0f), int(binary.BigEndian.Uint16(b[2:]))
		if header < IP4Header || total < header || len(b) < header {
			return f, false
		}
		f.Proto = b[9]
		src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		return f, f.readPorts(src, dst, b[header:min(total, len(b))])
	case unix.ETH_P_IPV6:
		if len(b) < IP6Header || b[0]>>4 != 6 {
			return f, false
		}
		f.Proto = b[6]
		total := IP6Header + int(binary.BigEndian.Uint16(b[4:]))
		return f, f.readPorts(netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])),
			b[IP6Header:min(total, len(b))])
	}
	return f, false
}

// readPorts reads the header of UDP or TCP.
func (f *Frame) readPorts(src, dst netip.Addr, b []byte) bool {
	header := 0
	switch {
	case f.Proto == unix.IPPROTO_UDP && len(b) >= UDPHeader:
		header = UDPHeader
	case f.Proto == unix.IPPROTO_TCP && len(b) >= TCPHeader:
		header = 4 * int(b[12]>>4)
		if header < TCPHeader || header > len(b) {
			return false
		}
	default:
		return false
	}
	f.Src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
	f.Dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	f.Body = b[header:]
	if f.Proto == unix.IPPROTO_UDP {
		f.Size = int(binary.BigEndian.Uint16(b[4:])) - UDPHeader
		if f.Size < 0 {
			return false
		}
		f.Body = f.Body[:min(f.Size, len(f.Body))]
	}
	return true
}

// ARPSender is who an ARP packet says that it is from; ok is false if it names no address.
func (f Frame) ARPSender() (mac net.HardwareAddr, at netip.Addr, ok bool) {
	const hardware, protocol, sender, source, length = 1, 2, 8, 14, 28
	b := f.Body
	if f.Ether != unix.ETH_P_ARP || len(b) < length || binary.BigEndian.Uint16(b) != hardware ||
		binary.BigEndian.Uint16(b[protocol:]) != unix.ETH_P_IP || b[4] != 6 || b[5] != 4 {
		return nil, at, false
	}
	at = netip.AddrFrom4([4]byte(b[source : source+4]))
	return net.HardwareAddr(b[sender : sender+6]), at, !at.IsUnspecified()
}

// Packet puts a payload into IP, without options, and the checksum of its protocol into the payload, at a place that
// is zero so far.
func Packet(from, to netip.Addr, protocol, hops byte, checksum int, payload []byte) []byte {
	addresses := append(from.AsSlice(), to.AsSlice()...)
	// The pseudo header of IPv6 (RFC 8200 section 8.1) has the same sum as that of IPv4.
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(addresses), uint32(len(payload)))
	sum := Checksum(append(append(pseudo, 0, 0, 0, protocol), payload...))
	if sum == 0 {
		sum = 0xffff // the same number; in UDP zero would say that there is none, which IPv6 does not allow
	}
	binary.BigEndian.PutUint16(payload[checksum:], sum)
	if from.Is6() {
		ip := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(payload)))
		return slices.Concat(ip, []byte{protocol, hops}, addresses, payload)
	}
	ip := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(IP4Header+len(payload))) // version 4, five words
	ip = append(append(ip, 0, 0, 0, 0, hops, protocol, 0, 0), addresses...)
	binary.BigEndian.PutUint16(ip[10:], Checksum(ip))
	return append(ip, payload...)
}
