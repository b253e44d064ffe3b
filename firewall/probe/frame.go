package probe

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"

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

// Places in a frame and lengths of its headers, in bytes.
const (
	etherHeader = 14
	ipHeader    = 20 // without options; those sent here have none
	udpHeader   = 8

	atEtherType = 12
	atFragment  = etherHeader + 6
	atProtocol  = etherHeader + 9
	atSource    = etherHeader + 12
)

// Places in a BOOTP message (RFC 951 §3, RFC 2131 §2).
const (
	atXID     = 4
	atFlags   = 10
	atChaddr  = 28
	atCookie  = 236
	atOptions = 240
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
	optionPad        = 0
	optionType       = 53
	optionServer     = 54
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
	return append(frame, datagram(message)...)
}

// datagram wraps a message from no address to all.
func datagram(message []byte) []byte {
	none, all := []byte{0, 0, 0, 0}, []byte{255, 255, 255, 255}
	udp := binary.BigEndian.AppendUint16(nil, clientPort)
	udp = binary.BigEndian.AppendUint16(udp, serverPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(udpHeader+len(message)))
	udp = append(append(udp, 0, 0), message...)
	pseudo := append(append(append([]byte{}, none...), all...), 0, unix.IPPROTO_UDP)
	pseudo = append(append(pseudo, udp[4:6]...), udp...)
	binary.BigEndian.PutUint16(udp[6:], rawsocket.Checksum(pseudo))

	ip := []byte{0x45, 0} // version 4, five words
	ip = binary.BigEndian.AppendUint16(ip, uint16(ipHeader+len(udp)))
	ip = append(ip, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0)
	ip = append(append(ip, none...), all...)
	binary.BigEndian.PutUint16(ip[10:], rawsocket.Checksum(ip))
	return append(ip, udp...)
}

// offer reads a frame for an answer to the request with this xid. An answer of any
// kind shows that there is a server. Checksums are not compared: between virtual
// interfaces the sender leaves them to hardware that no frame passes.
func offer(frame []byte, mac net.HardwareAddr, xid uint32) (s Server, ok bool) {
	message, source, ok := reply(frame)
	if !ok || message[0] != bootReply || binary.BigEndian.Uint32(message[atXID:]) != xid ||
		!bytes.Equal(message[atChaddr:atChaddr+len(mac)], mac) {
		return s, false
	}
	s = Server{Address: source, MAC: net.HardwareAddr(frame[6:12]).String()}
	if at, ok := identifier(message); ok {
		s.Address = at
	}
	return s, true
}

// reply takes the BOOTP message out of a frame from a server's port to a
// client's; ok is false if it is none.
func reply(frame []byte) (message []byte, source netip.Addr, ok bool) {
	if len(frame) < etherHeader+ipHeader || binary.BigEndian.Uint16(frame[atEtherType:]) != unix.ETH_P_IP ||
		frame[atProtocol] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(frame[atFragment:])&0x1fff != 0 {
		return nil, source, false
	}
	header := 4 * int(frame[etherHeader]&0x0f)
	udp := frame[min(etherHeader+header, len(frame)):]
	if header < ipHeader || len(udp) < udpHeader+atCookie ||
		binary.BigEndian.Uint16(udp) != serverPort || binary.BigEndian.Uint16(udp[2:]) != clientPort {
		return nil, source, false
	}
	return udp[udpHeader:], netip.AddrFrom4([4]byte(frame[atSource : atSource+4])), true
}

// identifier returns what the server calls itself in its options.
func identifier(message []byte) (at netip.Addr, ok bool) {
	if len(message) < atOptions || string(message[atCookie:atOptions]) != cookie {
		return at, false
	}
	for options := message[atOptions:]; len(options) >= 2 && options[0] != optionEnd; {
		if options[0] == optionPad {
			options = options[1:]
			continue
		}
		end := 2 + int(options[1])
		if end > len(options) {
			break
		}
		if options[0] == optionServer && end == 6 {
			return netip.AddrFrom4([4]byte(options[2:6])), true
		}
		options = options[end:]
	}
	return at, false
}

// answers is the kernel's part of offer: a busy network would otherwise fill the
// socket with frames that are of no use here.
func answers(xid uint32) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: atProtocol, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipFalse: 8},
		bpf.LoadMemShift{Off: etherHeader}, // X: the length of the IP header
		bpf.LoadIndirect{Off: etherHeader, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: serverPort, SkipFalse: 5},
		bpf.LoadIndirect{Off: etherHeader + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPort, SkipFalse: 3},
		bpf.LoadIndirect{Off: etherHeader + udpHeader + atXID, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: xid, SkipFalse: 1},
		bpf.RetConstant{Val: rawsocket.MaxFrame},
		bpf.RetConstant{Val: 0},
	})
}
