package probe

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// Places in a frame of IPv6 without extension headers (RFC 8200 section 3), which
// DHCPv6 servers send none of, and lengths, in bytes.
const (
	ip6Header = 40

	atNextHeader   = etherHeader + 6
	atSource6      = etherHeader + 8
	atDestination6 = etherHeader + 24
	atUDP6         = etherHeader + ip6Header
	atMessage6     = atUDP6 + udpHeader
)

// Of DHCPv6 (RFC 8415 sections 7.2, 7.3 and 21).
const (
	serverPort6 = 547
	clientPort6 = 546

	solicitType   = 1
	advertiseType = 2
	replyType     = 7

	optionClientID   = 1
	optionAddresses  = 3 // IA_NA
	optionRequest    = 6
	optionElapsed    = 8
	optionVendor     = 16
	optionBootFile   = 59 // RFC 5970 section 3
	duidLinkLayer    = 3  // RFC 8415 section 11.4
	enterpriseOfPXE  = 343
	transactionMask6 = 0xffffff // transactions have three bytes
)

// allServers is All_DHCP_Relay_Agents_and_Servers, ff02::1:2 (RFC 8415 section 7.1),
// and allServersMAC its Ethernet address (RFC 2464 section 7).
const (
	allServers    = "\xff\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x02"
	allServersMAC = "\x33\x33\x00\x01\x00\x02"
)

// solicit is a SOLICIT of a machine that boots by PXE. Its frame and its DUID are of
// the machine's MAC, which every host denies. Its address is that of the interface
// that asks: the server looks for the sender by neighbour discovery, and this host's
// kernel answers that for no other address.
func solicit(mac net.HardwareAddr, from netip.Addr, xid uint32) []byte {
	message := binary.BigEndian.AppendUint32(nil, solicitType<<24|xid&transactionMask6)
	message = option6(message, optionClientID, append([]byte{0, duidLinkLayer, 0, hardware}, mac...))
	message = option6(message, optionAddresses, make([]byte, 12)) // identity 0, times as the server likes
	message = option6(message, optionElapsed, []byte{0, 0})
	message = option6(message, optionRequest, []byte{0, optionBootFile})
	vendor := binary.BigEndian.AppendUint32(nil, enterpriseOfPXE)
	vendor = binary.BigEndian.AppendUint16(vendor, uint16(len(class)))
	message = option6(message, optionVendor, append(vendor, class...))

	frame := append([]byte(allServersMAC), mac...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IPV6)
	return append(frame, datagram6(from, netip.AddrFrom16([16]byte([]byte(allServers))), clientPort6, serverPort6,
		message)...)
}

func option6(message []byte, code uint16, value []byte) []byte {
	message = binary.BigEndian.AppendUint16(message, code)
	message = binary.BigEndian.AppendUint16(message, uint16(len(value)))
	return append(message, value...)
}

// datagram6 wraps a message into UDP over IPv6. It does not leave the link.
func datagram6(from, to netip.Addr, fromPort, toPort uint16, message []byte) []byte {
	length := uint16(udpHeader + len(message))
	udp := binary.BigEndian.AppendUint16(nil, fromPort)
	udp = binary.BigEndian.AppendUint16(udp, toPort)
	udp = binary.BigEndian.AppendUint16(udp, length)
	udp = append(append(udp, 0, 0), message...)
	addresses := append(from.AsSlice(), to.AsSlice()...)
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(addresses), uint32(length)) // RFC 8200 section 8.1
	pseudo = append(append(pseudo, 0, 0, 0, unix.IPPROTO_UDP), udp...)
	sum := rawsocket.Checksum(pseudo)
	if sum == 0 {
		sum = 0xffff // zero would say that there is none, which IPv6 does not allow
	}
	binary.BigEndian.PutUint16(udp[6:], sum)

	ip := []byte{0x60, 0, 0, 0}
	ip = binary.BigEndian.AppendUint16(ip, length)
	ip = append(ip, unix.IPPROTO_UDP, 1) // hops
	return append(append(ip, addresses...), udp...)
}

// advertisement reads a frame for an answer to the SOLICIT with this xid that asked
// from an address. The server is named by the address that its answer came from.
func advertisement(frame []byte, asked netip.Addr, xid uint32) (s Server, ok bool) {
	if len(frame) < atMessage6+4 || binary.BigEndian.Uint16(frame[atEtherType:]) != unix.ETH_P_IPV6 ||
		frame[etherHeader]>>4 != 6 || frame[atNextHeader] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(frame[atUDP6:]) != serverPort6 || binary.BigEndian.Uint16(frame[atUDP6+2:]) != clientPort6 ||
		netip.AddrFrom16([16]byte(frame[atDestination6:])) != asked {
		return s, false
	}
	head := binary.BigEndian.Uint32(frame[atMessage6:])
	if kind := head >> 24; kind != advertiseType && kind != replyType || head&transactionMask6 != xid&transactionMask6 {
		return s, false
	}
	return Server{Address: netip.AddrFrom16([16]byte(frame[atSource6:])), MAC: net.HardwareAddr(frame[6:12]).String()},
		true
}

// answers6 is the kernel's part of advertisement.
func answers6(xid uint32) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: atNextHeader, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipFalse: 8},
		bpf.LoadAbsolute{Off: atUDP6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: serverPort6, SkipFalse: 6},
		bpf.LoadAbsolute{Off: atUDP6 + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPort6, SkipFalse: 4},
		bpf.LoadAbsolute{Off: atMessage6, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: transactionMask6},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: xid & transactionMask6, SkipFalse: 1},
		bpf.RetConstant{Val: rawsocket.MaxFrame},
		bpf.RetConstant{Val: 0},
	})
}
