package probe

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// Server is a DHCP server that answered.
type Server struct {
	Address netip.Addr // as it calls itself, else where its answer came from
	MAC     string     // that its answer was sent from; a relay's, if there is one
}

// compare orders servers by address, then MAC.
func (s Server) compare(o Server) int {
	return cmp.Or(s.Address.Compare(o.Address), cmp.Compare(s.MAC, o.MAC))
}

// Places in a BOOTP message (RFC 951 §3, RFC 2131 §2).
const (
	atXID    = 4
	atFlags  = 10
	atChaddr = 28
	atCookie = 236
	// leastMessage is the size below which some relays drop a message.
	leastMessage = 300
)

const (
	bootRequest = 1
	bootReply   = 2
	hardware    = 1 // Ethernet
	toAll       = 0x80
	serverPort  = 67
	clientPort  = 68

	cookie           = "\x63\x82\x53\x63"
	optionType       = 53
	optionParameters = 55
	optionClass      = 60
	optionEnd        = 255
	discoverType     = 1
)

// class is the vendor class of PXE ROMs; PXE proxies answer no other clients.
const class = "PXEClient:Arch:00000:UNDI:002001"

// discover is a DHCPDISCOVER of a machine, from its MAC to everybody.
func discover(mac net.HardwareAddr, xid uint32) []byte {
	message := make([]byte, atCookie, leastMessage)
	message[0], message[1], message[2] = bootRequest, hardware, byte(len(mac))
	binary.BigEndian.PutUint32(message[atXID:], xid)
	message[atFlags] = toAll
	copy(message[atChaddr:], mac)
	message = append(message, cookie...)
	message = append(message, optionType, 1, discoverType)
	message = append(append(message, optionClass, byte(len(class))), class...)
	message = append(message, optionParameters, 5, 1, 3, 54, 66, 67) // mask, router, server, boot server, file
	message = append(message, optionEnd)
	message = append(message, make([]byte, leastMessage-len(message))...)

	frame := append(bytes.Repeat([]byte{0xff}, 6), mac...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IP)
	none, all := netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return append(frame, datagram(netip.AddrPortFrom(none, clientPort), netip.AddrPortFrom(all, serverPort), 64,
		message)...)
}

// datagram wraps a message into UDP over IP.
func datagram(from, to netip.AddrPort, hops byte, message []byte) []byte {
	udp := binary.BigEndian.AppendUint16(nil, from.Port())
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(rawsocket.UDPHeader+len(message)))
	return rawsocket.Packet(from.Addr(), to.Addr(), unix.IPPROTO_UDP, hops, 6, append(append(udp, 0, 0), message...))
}

// offer reads a frame for an answer to the request with this xid. An answer of any
// kind shows that there is a server, also one whose options cannot be read.
func offer(frame []byte, mac net.HardwareAddr, xid uint32) (s Server, ok bool) {
	f, ok := rawsocket.ReadFrame(frame)
	if !ok || f.Ether != unix.ETH_P_IP || f.Proto != unix.IPPROTO_UDP || f.Src.Port() != serverPort ||
		f.Dst.Port() != clientPort || len(f.Body) < atCookie || f.Body[0] != bootReply ||
		binary.BigEndian.Uint32(f.Body[atXID:]) != xid || !bytes.Equal(f.Body[atChaddr:atChaddr+len(mac)], mac) {
		return s, false
	}
	s = Server{Address: f.Src.Addr(), MAC: f.From.String()}
	if m, err := dhcpv4.FromBytes(f.Body); err == nil {
		if at, ok := netip.AddrFromSlice(m.ServerIdentifier()); ok { // what the server calls itself
			s.Address = at
		}
	}
	return s, true
}

// answers is the kernel's part of offer: a busy network would otherwise fill the
// socket with frames that are of no use here.
func answers(xid uint32) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: rawsocket.EtherHeader + 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipFalse: 8},
		bpf.LoadMemShift{Off: rawsocket.EtherHeader}, // X: the length of the IP header
		bpf.LoadIndirect{Off: rawsocket.EtherHeader, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: serverPort, SkipFalse: 5},
		bpf.LoadIndirect{Off: rawsocket.EtherHeader + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPort, SkipFalse: 3},
		bpf.LoadIndirect{Off: rawsocket.EtherHeader + rawsocket.UDPHeader + atXID, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: xid, SkipFalse: 1},
		bpf.RetConstant{Val: rawsocket.MaxFrame},
		bpf.RetConstant{Val: 0},
	})
}
