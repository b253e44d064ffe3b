//go:build e2e

package labtest

import (
	"bytes"
	"encoding/binary"
	"net"

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
