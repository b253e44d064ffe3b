package floatingip

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// mac is the hardware address of an Ethernet interface.
type mac [6]byte

// group returns the MAC of a multicast group of IPv6 (RFC 2464 §7).
func group(ip netip.Addr) mac {
	b := ip.As16()
	return mac{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// broadcast is everybody's MAC.
func broadcast() mac { return mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

// etherType returns the protocol in which neighbours ask for ip.
func etherType(ip netip.Addr) uint16 {
	if ip.Is4() {
		return unix.ETH_P_ARP
	}
	return unix.ETH_P_IPV6
}

// announcements tell everybody on the link that ip is to be found at own. IPv4
// has two forms, the request and the reply, because there are systems that
// heed only the one or the other (RFC 5944 §4.6).
func announcements(ip netip.Addr, own mac) [][]byte {
	if ip.Is4() {
		return [][]byte{
			arp{op: arpRequest, sender: own, senderIP: ip, targetIP: ip}.frame(),
			arp{op: arpReply, sender: own, senderIP: ip, target: own, targetIP: ip}.frame(),
		}
	}
	return [][]byte{advertisement(ip, own)}
}

// probe asks who has ip. It leaves out the sender's address, so that no neighbour
// learns anything from it (RFC 5227 §2.1.1, RFC 4862 §5.4.2).
func probe(ip netip.Addr, own mac) []byte {
	if ip.Is4() {
		return arp{op: arpRequest, sender: own, senderIP: netip.IPv4Unspecified(), targetIP: ip}.frame()
	}
	solicited := [16]byte{0: 0xff, 1: 0x02, 11: 0x01, 12: 0xff}
	target := ip.As16()
	copy(solicited[13:], target[13:])
	body := append([]byte{icmpSolicitation, 0, 0, 0, 0, 0, 0, 0}, target[:]...)
	return icmpFrame(own, netip.IPv6Unspecified(), netip.AddrFrom16(solicited), body)
}

// claimant returns the MAC of the host that claims ip in this frame: with any ARP
// packet sent from ip, or with a neighbour advertisement.
func claimant(ip netip.Addr, frame []byte) (who mac, ok bool) {
	if !ip.Is6() {
		f, _ := rawsocket.ReadFrame(frame)
		if from, at, ok := f.ARPSender(); ok && at == ip {
			return mac(from), true
		}
		return who, false
	}
	// The checksum of a neighbour advertisement does not count: between virtual interfaces the sender
	// leaves that to hardware that is never met.
	if len(frame) < atICMPOption || binary.BigEndian.Uint16(frame[atEtherType:]) != unix.ETH_P_IPV6 ||
		frame[atNextHeader] != unix.IPPROTO_ICMPV6 || frame[atHopLimit] != neighbourHops ||
		frame[atICMP] != icmpAdvertisement || !bytes.Equal(frame[atICMPTarget:atICMPOption], ip.AsSlice()) {
		return who, false
	}
	copy(who[:], frame[6:12]) // unless an option says better
	for option := frame[atICMPOption:]; len(option) >= 8; {
		length := 8 * int(option[1])
		if length == 0 || length > len(option) {
			break
		}
		if option[0] == optionTargetMAC {
			copy(who[:], option[2:8])
		}
		option = option[length:]
	}
	return who, true
}

// Places in a frame, in bytes from its start.
const (
	atEtherType = 12
	atPayload   = 14 // behind the Ethernet header

	atARPSenderIP = atPayload + 14

	atNextHeader = atPayload + 6
	atHopLimit   = atPayload + 7
	atICMP       = atPayload + 40
	atICMPTarget = atICMP + 8
	atICMPOption = atICMP + 24
)

// What ARP for IPv4 over Ethernet begins with: hardware type 1, protocol
// 0x0800, and the lengths of their addresses.
const (
	arpKind    = "\x00\x01\x08\x00\x06\x04"
	arpRequest = 1
	arpReply   = 2
)

// arp is an ARP packet (RFC 826); those sent here go to everybody.
type arp struct {
	op                 uint16
	sender, target     mac
	senderIP, targetIP netip.Addr
}

func (a arp) frame() []byte {
	b := ethernet(broadcast(), a.sender, unix.ETH_P_ARP)
	b = append(b, arpKind...)
	b = binary.BigEndian.AppendUint16(b, a.op)
	b = append(append(b, a.sender[:]...), a.senderIP.AsSlice()...)
	return append(append(b, a.target[:]...), a.targetIP.AsSlice()...)
}

func ethernet(to, from mac, protocol uint16) []byte {
	b := make([]byte, 0, 128)
	b = append(append(b, to[:]...), from[:]...)
	return binary.BigEndian.AppendUint16(b, protocol)
}

// Numbers of neighbour discovery (RFC 4861 §4.3, §4.4, §4.6.1).
const (
	icmpSolicitation  = 135
	icmpAdvertisement = 136
	override          = 0x20 // in the first byte of an advertisement's flags
	optionTargetMAC   = 2
	// neighbourHops proves that a packet was sent on this link: no router
	// forwards one that still has it.
	neighbourHops = 255
)

// advertisement is the unsolicited kind, with which neighbours override what
// they remember.
func advertisement(ip netip.Addr, own mac) []byte {
	body := append([]byte{icmpAdvertisement, 0, 0, 0, override, 0, 0, 0}, ip.AsSlice()...)
	body = append(append(body, optionTargetMAC, 1), own[:]...)
	return icmpFrame(own, ip, netip.IPv6LinkLocalAllNodes(), body)
}

// icmpFrame puts a body, whose checksum is still zero, into a frame for a group.
func icmpFrame(own mac, from, to netip.Addr, body []byte) []byte {
	return append(ethernet(group(to), own, unix.ETH_P_IPV6),
		rawsocket.Packet(from, to, unix.IPPROTO_ICMPV6, neighbourHops, 2, body)...)
}

// claims is the kernel's part of claimant. A busy link would otherwise fill the
// socket with frames that are of no use here, and the one answer could be lost.
func claims(ip netip.Addr) ([]bpf.RawInstruction, error) {
	if ip.Is4() {
		return filter(field{atARPSenderIP, ip.AsSlice()})
	}
	target := ip.AsSlice()
	return filter(
		field{atNextHeader, []byte{unix.IPPROTO_ICMPV6}}, field{atICMP, []byte{icmpAdvertisement}},
		field{atICMPTarget, target[:4]}, field{atICMPTarget + 4, target[4:8]},
		field{atICMPTarget + 8, target[8:12]}, field{atICMPTarget + 12, target[12:]},
	)
}

// field is what a frame has to have at a place: 1 or 4 bytes.
type field struct {
	at    int
	value []byte
}

// filter takes the frames that have all the fields.
func filter(fields ...field) ([]bpf.RawInstruction, error) {
	var program []bpf.Instruction
	for i, f := range fields {
		value := uint32(f.value[0])
		if len(f.value) == 4 {
			value = binary.BigEndian.Uint32(f.value)
		}
		toTheEnd := uint8(2*(len(fields)-1-i) + 1)
		program = append(program,
			bpf.LoadAbsolute{Off: uint32(f.at), Size: len(f.value)},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: toTheEnd})
	}
	return bpf.Assemble(append(program, bpf.RetConstant{Val: rawsocket.MaxFrame}, bpf.RetConstant{Val: 0}))
}
