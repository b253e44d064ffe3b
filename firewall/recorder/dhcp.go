package recorder

import (
	"cmp"
	"net"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Ports of DHCP, and of PXE's boot servers.
const (
	serverPort  = 67
	clientPort  = 68
	pxePort     = 4011
	server6Port = 547
	client6Port = 546
)

// optionIPXE encapsulates iPXE's options: no other client sends it.
const optionIPXE = 175

// message is one step of a machine's boot as one frame of DHCP shows it; when it was heard, and
// by which peer, is not in it.
type message struct {
	mac  string // the machine's, in lower case
	step boots.Step
	// uuid is the client's machine identifier (RFC 4578 §2.3), "" if it names none.
	uuid string
}

// readDHCP4 reads a message between the ports of DHCP over IPv4. ok is false for one that is
// no step of a boot.
func readDHCP4(f frame) (s message, ok bool) {
	m, err := dhcpv4.FromBytes(f.Body)
	if err != nil || len(m.ClientHWAddr) != 6 {
		return s, false
	}
	s.mac = m.ClientHWAddr.String()
	s.step.Client, s.step.Arch = clientOf(m.ClassIdentifier()), archNumber(m.ClientArch())
	if m.GetOneOption(dhcpv4.GenericOptionCode(optionIPXE)) != nil ||
		strings.HasPrefix(string(m.GetOneOption(dhcpv4.OptionUserClassInformation)), "iPXE") {
		s.step.Client = boots.IPXEClient
	}
	s.step.Relay = addressText(m.GatewayIPAddr)
	s.step.Kind, ok = map[dhcpv4.MessageType]boots.Kind{
		dhcpv4.MessageTypeDiscover: boots.Asked, dhcpv4.MessageTypeRequest: boots.Chose,
		dhcpv4.MessageTypeOffer: boots.Offered, dhcpv4.MessageTypeAck: boots.Leased, dhcpv4.MessageTypeNak: boots.Refused,
	}[m.MessageType()]
	switch {
	case !ok:
		return s, false
	case s.step.Kind == boots.Chose:
		s.step.Server, s.step.Address = addressText(m.ServerIdentifier()), addressText(m.RequestedIPAddress())
	case s.step.Kind != boots.Asked: // an answer says nothing about its client's program
		s.step.Client, s.step.Arch = 0, 0
		s.step.Server = cmp.Or(addressText(m.ServerIdentifier()), f.Src.Addr().String())
		s.step.ServerMAC = f.From.String()
		s.step.Address = addressText(m.YourIPAddr)
		s.step.File = said(cmp.Or(m.BootFileNameOption(), m.BootFileName))
	}
	if s.step.Kind == boots.Refused {
		s.step.Text = said(m.Message())
	}
	if id := m.GetOneOption(dhcpv4.OptionClientMachineIdentifier); len(id) == 17 && id[0] == 0 { // of the type 0
		s.uuid = uuid.UUID(id[1:]).String()
	}
	return s, true
}

// clientOf is the program that a vendor class is of.
func clientOf(class string) boots.Client {
	switch {
	case strings.HasPrefix(class, "HTTPClient"):
		return boots.HTTPClient
	case strings.HasPrefix(class, "PXEClient"):
		return boots.PXEClient
	}
	return boots.OtherClient
}

// archNumber is the first of some architectures as Step has it.
func archNumber(all []iana.Arch) uint16 {
	if len(all) == 0 || all[0] == ^iana.Arch(0) {
		return 0
	}
	return uint16(all[0]) + 1
}

// readDHCP6 reads a message of DHCPv6. Its client's MAC is the one that the relay or the DUID
// names, and else that of the frame.
func readDHCP6(f frame) (s message, ok bool) {
	packet, err := dhcpv6.FromBytes(f.Body)
	if err != nil {
		return s, false
	}
	m, err := packet.GetInnerMessage()
	if err != nil {
		return s, false
	}
	toClient := f.Dst.Port() == client6Port
	s.mac = f.From.String()
	if toClient {
		s.mac = f.To.String()
	}
	if packet.IsRelay() {
		mac, err := dhcpv6.ExtractMAC(packet)
		if err != nil || len(mac) != 6 {
			return s, false
		}
		s.mac, s.step.Relay = mac.String(), f.Src.Addr().String()
		if answers(f) {
			s.step.Relay = f.Dst.Addr().String()
		}
		if relay, is := packet.(*dhcpv6.RelayMessage); is { // one in a switch has no such address (RFC 6221)
			s.step.Relay = cmp.Or(addressText(relay.LinkAddr), s.step.Relay)
		}
	}
	s.step.Kind, ok = map[dhcpv6.MessageType]boots.Kind{
		dhcpv6.MessageTypeSolicit: boots.Asked, dhcpv6.MessageTypeRequest: boots.Chose,
		dhcpv6.MessageTypeAdvertise: boots.Offered, dhcpv6.MessageTypeReply: boots.Leased,
	}[m.MessageType]
	switch s.step.Kind {
	case boots.Asked, boots.Chose:
		s.step.Client, s.step.Arch = client6(m)
	case boots.Offered, boots.Leased:
		s.answer6(f, m)
	}
	return s, ok
}

func (s *message) answer6(f frame, m *dhcpv6.Message) {
	s.step.Server, s.step.ServerMAC = f.Src.Addr().WithZone("").String(), f.From.String()
	s.step.File = said(m.Options.BootFileURL())
	if status := m.Options.Status(); status != nil && status.StatusCode != iana.StatusSuccess {
		s.step.Kind, s.step.Text = boots.Refused, said(status.StatusMessage)
	}
	if ia := m.Options.OneIANA(); ia != nil {
		if address := ia.Options.OneAddress(); address != nil {
			s.step.Address = addressText(address.IPv6Addr)
		} else if status := ia.Options.Status(); status != nil && status.StatusCode != iana.StatusSuccess {
			s.step.Kind, s.step.Text = boots.Refused, said(status.StatusMessage)
		}
	}
}

func client6(m *dhcpv6.Message) (c boots.Client, arch uint16) {
	arch = archNumber(m.Options.ArchTypes())
	for _, class := range m.Options.UserClasses() {
		if strings.HasPrefix(string(class), "iPXE") {
			return boots.IPXEClient, arch
		}
	}
	for _, vendor := range m.Options.VendorClasses() {
		for _, data := range vendor.Data {
			if c := clientOf(string(data)); c != boots.OtherClient {
				return c, arch
			}
		}
	}
	return boots.OtherClient, arch
}

// clientMAC finds the MAC of the client of a message of DHCP over IPv4 without reading it all;
// over IPv6 that of the end of the frame that is the client's, behind a relay that of the address
// by which the relay knows it, else the relay's.
func clientMAC(f frame) string {
	const at, length = 28, 6 // of DHCP over IPv4
	const peer, half = 18, 8 // of the address of a relay's client
	switch {
	case f.Src.Addr().Is4() && len(f.Body) >= at+length:
		return net.HardwareAddr(f.Body[at : at+length]).String()
	case f.Dst.Port() == client6Port:
		return f.To.String()
	case relays6(f) && len(f.Body) >= peer+2*half:
		if mac, err := dhcpv6.GetMacAddressFromEUI64(net.IP(f.Body[peer : peer+2*half])); err == nil {
			return mac.String()
		}
	}
	return f.From.String()
}

// relays6 reports whether a message of DHCPv6 is between a relay and a server.
func relays6(f frame) bool {
	return f.Src.Addr().Is6() && len(f.Body) > 0 && (f.Body[0] == byte(dhcpv6.MessageTypeRelayForward) ||
		f.Body[0] == byte(dhcpv6.MessageTypeRelayReply))
}

// answers reports whether a message of DHCP is of a server.
func answers(f frame) bool {
	if f.Src.Addr().Is4() {
		return len(f.Body) > 0 && f.Body[0] == byte(dhcpv4.OpcodeBootReply)
	}
	return f.Dst.Port() == client6Port || relays6(f) && f.Body[0] == byte(dhcpv6.MessageTypeRelayReply)
}

// addressText is "" for none.
func addressText(ip net.IP) string {
	at, ok := netip.AddrFromSlice(ip)
	if at = at.Unmap(); !ok || at.IsUnspecified() {
		return ""
	}
	return at.String()
}

// said is a text of the wire as a step may have it: without what is no text, and cut.
func said(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\x7f' || r == '\ufffd' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return valid.Cut(text, boots.MaxText)
}
