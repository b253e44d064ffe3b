package lldp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// organisation reads a TLV whose meaning an organisation lays down. Those that
// are not read here are passed over.
func (f *Facts) organisation(value []byte) error {
	if len(value) < 4 {
		return errShort
	}
	subtype, rest := value[3], value[4:]
	var err error
	switch [3]byte(value) {
	case [3]byte{0x00, 0x80, 0xc2}:
		err = f.dot1(subtype, rest)
	case [3]byte{0x00, 0x12, 0x0f}:
		err = f.dot3(subtype, rest)
	}
	if err != nil {
		return fmt.Errorf("%x subtype %d: %w", value[:3], subtype, err)
	}
	return nil
}

// dot1 reads TLVs of IEEE 802.1 (802.1Q, table D-1).
func (f *Facts) dot1(subtype byte, value []byte) error {
	switch subtype {
	case 1:
		return f.number(PortVLAN, value)
	case 2:
		return f.protocolVLAN(value)
	case 3:
		return f.vlan(value)
	case 4:
		return f.protocol(value)
	case 6:
		return f.number("switch_port_management_vlan_id", value)
	case 7:
		return f.aggregation(value)
	default:
		return nil
	}
}

// dot3 reads TLVs of IEEE 802.3 (802.3, table 79-1). Aggregation has moved to
// 802.1, but switches still say it here.
func (f *Facts) dot3(subtype byte, value []byte) error {
	switch subtype {
	case 1:
		return f.physical(value)
	case 3:
		return f.aggregation(value)
	case 4:
		return f.number("switch_port_mtu", value)
	default:
		return nil
	}
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
