package probe

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// Places in a frame of IPv6 without extension headers (RFC 8200 section 3), which
// DHCPv6 servers send none of, in bytes.
const (
	atNextHeader = rawsocket.EtherHeader + 6
	atUDP6       = rawsocket.EtherHeader + rawsocket.IP6Header
	atMessage6   = atUDP6 + rawsocket.UDPHeader
)

// Of DHCPv6 (RFC 8415 sections 7.2, 7.3 and 21).
const (
	serverPort6 = 547
	clientPort6 = 546

	advertiseType = 2
	replyType     = 7

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
	message := dhcpv6.Message{MessageType: dhcpv6.MessageTypeSolicit,
		TransactionID: dhcpv6.TransactionID{byte(xid >> 16), byte(xid >> 8), byte(xid)}}
	for _, option := range []dhcpv6.Option{
		dhcpv6.OptClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac}),
		&dhcpv6.OptIANA{}, // identity 0, times as the server likes
		dhcpv6.OptElapsedTime(0), dhcpv6.OptRequestedOption(dhcpv6.OptionBootfileURL),
		&dhcpv6.OptVendorClass{EnterpriseNumber: enterpriseOfPXE, Data: [][]byte{[]byte(class)}},
	} {
		message.AddOption(option)
	}
	to := netip.AddrFrom16([16]byte([]byte(allServers)))
	frame := append([]byte(allServersMAC), mac...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IPV6)
	return append(frame, datagram(netip.AddrPortFrom(from, clientPort6), netip.AddrPortFrom(to, serverPort6),
		1, message.ToBytes())...) // it does not leave the link
}

// advertisement reads a frame for an answer to the SOLICIT with this xid that asked
// from an address. The server is named by the address that its answer came from.
func advertisement(frame []byte, asked netip.Addr, xid uint32) (s Server, ok bool) {
	f, ok := rawsocket.ReadFrame(frame)
	if !ok || f.Proto != unix.IPPROTO_UDP || f.Src.Port() != serverPort6 ||
		f.Dst != netip.AddrPortFrom(asked, clientPort6) || len(f.Body) < 4 {
		return s, false
	}
	head := binary.BigEndian.Uint32(f.Body)
	if kind := head >> 24; kind != advertiseType && kind != replyType || head&transactionMask6 != xid&transactionMask6 {
		return s, false
	}
	return Server{Address: f.Src.Addr(), MAC: f.From.String()}, true
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
