package lldp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// The identifiers of IEEE 802.1 (802.1Q, table D-1) and IEEE 802.3 (802.3, table 79-1), with room
// for a subtype.
const (
	dot1 = 0x0080c200
	dot3 = 0x00120f00
)

// organisation reads a TLV whose meaning an organisation lays down. Those that
// are not read here are passed over.
func (f *Facts) organisation(value []byte) (err error) {
	if len(value) < 4 {
		return errShort
	}
	rest := value[4:]
	switch binary.BigEndian.Uint32(value) {
	case dot1 + 1:
		err = f.number(PortVLAN, rest)
	case dot1 + 2:
		err = f.protocolVLAN(rest)
	case dot1 + 3:
		err = f.vlan(rest)
	case dot1 + 4:
		err = f.protocol(rest)
	case dot1 + 6:
		err = f.number("switch_port_management_vlan_id", rest)
	case dot1 + 7, dot3 + 3: // it has moved to 802.1, but switches still say it there
		err = f.aggregation(rest)
	case dot3 + 1:
		err = f.physical(rest)
	case dot3 + 4:
		err = f.number("switch_port_mtu", rest)
	}
	if err != nil {
		return fmt.Errorf("%x subtype %d: %w", value[:3], value[3], err)
	}
	return nil
}

// number reads the 16 bits at the beginning.
func (f *Facts) number(name string, value []byte) error {
	if len(value) < 2 {
		return errShort
	}
	f.set(name, binary.BigEndian.Uint16(value))
	return nil
}

func (f *Facts) protocolVLAN(value []byte) error {
	if len(value) != 3 {
		return wrongSize(value, 3)
	}
	f.set("switch_port_protocol_vlan_enabled", value[0]&4 != 0)
	f.set("switch_port_protocol_vlan_support", value[0]&2 != 0)
	grow(f, "switch_port_protocol_vlan_ids", binary.BigEndian.Uint16(value[1:]))
	return nil
}

// vlan reads a VLAN's ID, the length of its name, and the name, which may be
// padded with zeros.
func (f *Facts) vlan(value []byte) error {
	if len(value) < 3 || len(value) < 3+int(value[2]) {
		return errShort
	}
	name, err := textOf(bytes.TrimRight(value[3:3+int(value[2])], "\x00"))
	if err != nil {
		return err
	}
	grow(f, "switch_port_vlans", vlan{name, binary.BigEndian.Uint16(value)})
	return nil
}

// protocol reads the first bytes of the frames of a protocol, and their number.
func (f *Facts) protocol(value []byte) error {
	if len(value) < 1 || len(value) < 1+int(value[0]) {
		return errShort
	}
	grow(f, "switch_protocol_identities", hex.EncodeToString(value[1:1+int(value[0])]))
	return nil
}

func (f *Facts) aggregation(value []byte) error {
	if len(value) != 5 {
		return wrongSize(value, 5)
	}
	f.set("switch_port_link_aggregation_enabled", value[0]&2 != 0)
	f.set("switch_port_link_aggregation_support", value[0]&1 != 0)
	f.set("switch_port_link_aggregation_id", binary.BigEndian.Uint32(value[1:]))
	return nil
}
