package lldp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"unicode/utf8"
)

var (
	errShort   = errors.New("it ends too early")
	errNotUTF8 = errors.New("its text is not UTF-8")
)

// form is how an identifier is written down.
type form int

const (
	formUnknown form = iota
	formText
	formMAC
	formAddress // a family and an address
)

// Forms of a chassis ID by subtype (802.1AB, table 8-2), and of a port ID (table 8-3). An agent's
// circuit ID, subtype 6 of a port's, is bytes without a form.
var (
	// chassis component, interface alias, port component, MAC, address, interface name, local
	chassisForms = map[byte]form{1: formText, 2: formText, 3: formText, 4: formMAC, 5: formAddress, 6: formText,
		7: formText}
	// interface alias, port component, MAC, address, interface name, local
	portForms = map[byte]form{1: formText, 2: formText, 3: formMAC, 4: formAddress, 5: formText, 7: formText}
)

func (f *Facts) identifier(name string, value []byte, forms map[byte]form) error {
	if len(value) == 0 {
		return errShort
	}
	var text string
	var err error
	switch forms[value[0]] {
	case formText:
		text, err = textOf(value[1:])
	case formMAC:
		text, err = addressOf(familyMAC, value[1:])
	case formAddress:
		if len(value) == 1 {
			return errShort
		}
		text, err = addressOf(value[1], value[2:])
	default:
		return fmt.Errorf("identifiers of subtype %d are unknown", value[0])
	}
	if err != nil {
		return err
	}
	f.set(name, text)
	return nil
}

func (f *Facts) text(name string, value []byte) error {
	text, err := textOf(value)
	if err != nil {
		return err
	}
	f.set(name, text)
	return nil
}

func textOf(value []byte) (string, error) {
	if !utf8.Valid(value) {
		return "", errNotUTF8
	}
	return string(value), nil
}

// IANA's numbers of address families.
const (
	familyIPv4 = 1
	familyIPv6 = 2
	familyMAC  = 6
)

// addressOf writes the address at the beginning of value. What follows it is
// not looked at, as in the original: some switches pad.
func addressOf(family byte, value []byte) (string, error) {
	size, known := map[byte]int{familyIPv4: 4, familyMAC: 6, familyIPv6: 16}[family]
	switch {
	case !known:
		return "", fmt.Errorf("addresses of family %d are unknown", family)
	case len(value) < size:
		return "", errShort
	case family == familyMAC:
		return net.HardwareAddr(value[:size]).String(), nil
	}
	ip, _ := netip.AddrFromSlice(value[:size]) // 4 and 16 bytes always are one
	return ip.String(), nil
}

// capabilityNames are those of bits 1 to 10, from the lowest (802.1AB, table
// 8-4). Bit 0 means others.
var capabilityNames = [...]string{"Repeater", "Bridge", "WLAN", "Router", "Telephone", "DOCSIS cable device",
	"Station only", "C-Vlan", "S-Vlan", "TPMR"}

func (f *Facts) capabilities(value []byte) error {
	if len(value) != 4 {
		return wrongSize(value, 4)
	}
	f.set("switch_capabilities_support", capabilitiesOf(value[:2]))
	f.set("switch_capabilities_enabled", capabilitiesOf(value[2:]))
	return nil
}

func capabilitiesOf(value []byte) []string {
	bits := binary.BigEndian.Uint16(value)
	names := []string{} // none is a list, too
	for i, name := range capabilityNames {
		if bits>>(i+1)&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// managementAddress reads the address that its family announces. The length
// before it says the same once more and is not looked at, nor are the
// interface's number and the object identifier behind it.
func (f *Facts) managementAddress(value []byte) error {
	if len(value) < 2 {
		return errShort
	}
	address, err := addressOf(value[1], value[2:])
	if err != nil {
		return err
	}
	grow(f, "switch_mgmt_addresses", address)
	return nil
}

func wrongSize(value []byte, want int) error {
	return fmt.Errorf("it has %d bytes, want %d", len(value), want)
}
