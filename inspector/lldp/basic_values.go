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

// chassisForm tells the form of a chassis ID (802.1AB, table 8-2).
func chassisForm(subtype byte) form {
	switch subtype {
	case 1, 2, 3, 6, 7: // chassis component, interface alias, port component, interface name, local
		return formText
	case 4:
		return formMAC
	case 5:
		return formAddress
	default:
		return formUnknown
	}
}

// portForm tells the form of a port ID (802.1AB, table 8-3). An agent's circuit
// ID (6) is bytes without a form.
func portForm(subtype byte) form {
	switch subtype {
	case 1, 2, 5, 7: // interface alias, port component, interface name, local
		return formText
	case 3:
		return formMAC
	case 4:
		return formAddress
	default:
		return formUnknown
	}
}

func (f *Facts) identifier(name string, value []byte, formOf func(subtype byte) form) error {
	if len(value) == 0 {
		return errShort
	}
	var text string
	var err error
	switch formOf(value[0]) {
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
	size := 0
	switch family {
	case familyIPv4:
		size = 4
	case familyMAC:
		size = 6
	case familyIPv6:
		size = 16
	}
	switch {
	case size == 0:
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
