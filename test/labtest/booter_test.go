//go:build e2e

package labtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

const (
	// answerLimit bounds the wait of a machine for one answer, and answerTries how often it asks.
	answerLimit = 2 * time.Second
	answerTries = 5
	// fetchBlock is the size of the blocks of TFTP that a machine asks for.
	fetchBlock = 1408
)

// booter is a machine on a host of its own, with the network card of one that Ironic knows, which
// sends what firmware, iPXE and a script of it send.
type booter struct {
	t       testing.TB
	host    *Host
	link    Link
	mac     net.HardwareAddr
	wire    rawsocket.Socket
	options []dhcpv4.Modifier // what it says of itself
	server  string            // that gave it its address
}

// plugIn puts a machine on a switch, as the host of that number.
func (n *Net) plugIn(l Link, host int, m openstack.Machine) *booter {
	n.t.Helper()
	h := n.bare(host)
	h.plug(l, h.pxe())
	n.ip(host, "link", "set", string(l), "address", m.MAC)
	n.ip(host, "addr", "flush", "dev", string(l))
	wire := h.socket(l, unix.ETH_P_IP)
	return &booter{t: n.t, host: h, link: l, mac: hardware(n.t, m.MAC), wire: wire}
}

// as has the machine be firmware of an architecture, or iPXE on it.
func (b *booter) as(arch iana.Arch, ipxe bool) *booter {
	b.options = []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(fmt.Sprintf("PXEClient:Arch:%05d:UNDI:003001", arch)))}
	if ipxe {
		b.options = append(b.options, dhcpv4.WithGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")))
	}
	return b
}

// send broadcasts a message.
func (b *booter) send(kind dhcpv4.MessageType, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	b.t.Helper()
	m, err := dhcpv4.New(append(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(b.mac), dhcpv4.WithMessageType(kind),
		dhcpv4.WithBroadcast(true)}, b.options...), more...)...)
	testenv.Must(b.t, err)
	frame := append(ethernet(b.mac, unix.ETH_P_IP), datagram(68, net.IPv4zero, net.IPv4bcast, m.ToBytes())...)
	testenv.Must(b.t, b.wire.Send(frame))
	return m
}

// asks sends a message until it is answered; an answer that is not of a kind that is wanted, or
// that want does not take, does not count. nil: nobody answered.
func (b *booter) asks(want func(*dhcpv4.DHCPv4) bool, kind dhcpv4.MessageType, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	b.t.Helper()
	for range answerTries {
		asked := b.send(kind, more...)
		var got *dhcpv4.DHCPv4
		err := b.wire.Listen(b.t.Context(), answerLimit, func(frame []byte) bool {
			m := answer4(frame)
			if m == nil || m.TransactionID != asked.TransactionID || !want(m) {
				return false
			}
			got = m
			return true
		})
		testenv.Must(b.t, err)
		if got != nil {
			return got
		}
	}
	return nil
}

// answer4 is what a DHCP server says in a frame; nil: nothing.
func answer4(frame []byte) *dhcpv4.DHCPv4 {
	if len(frame) < atOptions || frame[frameHead+9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(frame[atUDP:]) != 67 {
		return nil
	}
	m, err := dhcpv4.FromBytes(bytes.Clone(frame[atBOOTP:]))
	if err != nil || m.OpCode != dhcpv4.OpcodeBootReply {
		return nil
	}
	return m
}

func ofKind(kind dhcpv4.MessageType, server string) func(*dhcpv4.DHCPv4) bool {
	return func(m *dhcpv4.DHCPv4) bool {
		return m.MessageType() == kind && (server == "" || m.ServerIdentifier().String() == server)
	}
}

// chooses asks for what a server offers, and returns the offer.
func (b *booter) chooses(server string) *dhcpv4.DHCPv4 {
	b.t.Helper()
	offer := b.asks(ofKind(dhcpv4.MessageTypeOffer, server), dhcpv4.MessageTypeDiscover)
	if offer == nil {
		b.t.Fatalf("%v got no offer of %q", b.mac, server)
	}
	return offer
}

// takes asks for an address of a server; nil: it was not given. kind is what is waited for.
func (b *booter) takes(server, address net.IP, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	b.t.Helper()
	return b.asks(ofKind(kind, ""), dhcpv4.MessageTypeRequest,
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)), dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(address)))
}

// leases gets an address, as any server or the one that is named gives it, and has it.
func (b *booter) leases(server string) *booter {
	b.t.Helper()
	offer := b.chooses(server)
	given := b.takes(offer.ServerIdentifier(), offer.YourIPAddr, dhcpv4.MessageTypeAck)
	if given == nil {
		b.t.Fatalf("%v was not given %v", b.mac, offer.YourIPAddr)
	}
	b.server = given.ServerIdentifier().String()
	b.host.net.ip(b.host.number, "addr", "replace", given.YourIPAddr.String()+"/24", "dev", string(b.link))
	return b
}

// fetches fetches a file by TFTP from the server that gave it its address, whole or as many blocks
// as are wanted, and then breaks off; the error is the server's.
func (b *booter) fetches(file string, most int) (err error) {
	b.t.Helper()
	var conn *net.UDPConn
	testenv.Must(b.t, b.host.enter(func() (err error) {
		conn, err = net.ListenUDP("udp4", nil)
		return err
	}))
	defer func() { err = errors.Join(err, conn.Close()) }()
	to := netip.AddrPortFrom(netip.MustParseAddr(b.server), 69)
	packet := fmt.Appendf(nil, "\x00\x01%s\x00octet\x00tsize\x000\x00blksize\x00%d\x00", file, fetchBlock)
	buffer := make([]byte, 4+fetchBlock)
	for tries := 0; tries < answerTries; {
		if _, err := conn.WriteToUDPAddrPort(packet, to); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
			return err
		}
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			tries++
			continue
		case err != nil:
			return err
		case n < 4:
			return fmt.Errorf("the server sent %q", buffer[:n])
		}
		to, tries = from, 0
		switch number := binary.BigEndian.Uint16(buffer[2:]); buffer[1] {
		case 6: // options
			packet = []byte{0, 4, 0, 0}
		case 5: // an error
			return errors.New(strings.TrimRight(string(buffer[4:n]), "\x00"))
		case 3: // a block
			packet = binary.BigEndian.AppendUint16([]byte{0, 4}, number)
			if int(number) >= most {
				packet = []byte("\x00\x05\x00\x00no room\x00")
			}
			if n < len(buffer) || int(number) >= most {
				_, err := conn.WriteToUDPAddrPort(packet, to)
				return err
			}
		}
	}
	return context.DeadlineExceeded
}

// whole is more blocks than any file of the lab has.
const whole = 1 << 16
