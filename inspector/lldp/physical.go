package lldp

import (
	"encoding/binary"
	"fmt"
)

// physical reads how a port speaks on the wire (802.3, clause 79.3.1): whether
// it negotiates, what it can, and what it does.
func (f *Facts) physical(value []byte) error {
	if len(value) != 5 {
		return wrongSize(value, 5)
	}
	mau := binary.BigEndian.Uint16(value[3:])
	if int(mau) >= len(mauTypes) {
		return fmt.Errorf("MAUs of type %d are unknown", mau)
	}
	f.set("switch_port_autonegotiation_enabled", value[0]&2 != 0)
	f.set("switch_port_autonegotiation_support", value[0]&1 != 0)
	names, bits := []string{}, binary.BigEndian.Uint16(value[1:]) // no name is a list, too
	for _, m := range modes {
		if bits&m.bit != 0 {
			names = append(names, m.name)
		}
	}
	f.set("switch_port_physical_capabilities", names)
	f.set("switch_port_mau_type", mauTypes[mau])
	return nil
}

// modes are what a port can negotiate, sorted by name. The bits are those of
// IANAifMauAutoNegCapBits (RFC 4836), whose first is the highest.
var modes = [...]struct {
	bit  uint16
	name string
}{
	{1 << 0, "1000BASE-T fdx"},
	{1 << 1, "1000BASE-T hdx"},
	{1 << 2, "1000BASE-X fdx"},
	{1 << 3, "1000BASE-X hdx"},
	{1 << 8, "100BASE-T2 fdx"},
	{1 << 9, "100BASE-T2 hdx"},
	{1 << 10, "100BASE-TX fdx"},
	{1 << 11, "100BASE-TX hdx"},
	{1 << 13, "10BASE-T fdx"},
	{1 << 14, "10BASE-T hdx"},
	{1 << 12, "10BASE-T4"}, // the contract's spelling of 100BASE-T4
	{1 << 6, "Asym PAUSE fdx"},
	{1 << 4, "Asym and Sym PAUSE fdx"},
	{1 << 7, "PAUSE fdx"},
	{1 << 5, "Sym PAUSE fdx"},
}

// mauTypes are medium attachment units by their number in dot3MauType (RFC
// 4836), spelled as the original does.
var mauTypes = [...]string{
	0:  "Unknown",
	1:  "AUI",
	2:  "10BASE-5",
	3:  "FOIRL",
	4:  "10BASE-2",
	5:  "10BASE-T duplex mode unknown",
	6:  "10BASE-FP",
	7:  "10BASE-FB",
	8:  "10BASE-FL duplex mode unknown",
	9:  "10BROAD36",
	10: "10BASE-T half duplex",
	11: "10BASE-T full duplex",
	12: "10BASE-FL half duplex",
	13: "10BASE-FL full duplex",
	14: "100 BASE-T4",
	15: "100BASE-TX half duplex",
	16: "100BASE-TX full duplex",
	17: "100BASE-FX half duplex",
	18: "100BASE-FX full duplex",
	19: "100BASE-T2 half duplex",
	20: "100BASE-T2 full duplex",
	21: "1000BASE-X half duplex",
	22: "1000BASE-X full duplex",
	23: "1000BASE-LX half duplex",
	24: "1000BASE-LX full duplex",
	25: "1000BASE-SX half duplex",
	26: "1000BASE-SX full duplex",
	27: "1000BASE-CX half duplex",
	28: "1000BASE-CX full duplex",
	29: "1000BASE-T half duplex",
	30: "1000BASE-T full duplex",
	31: "10GBASE-X",
	32: "10GBASE-LX4",
	33: "10GBASE-R",
	34: "10GBASE-ER",
	35: "10GBASE-LR",
	36: "10GBASE-SR",
	37: "10GBASE-W",
	38: "10GBASE-EW",
	39: "10GBASE-LW",
	40: "10GBASE-SW",
	41: "10GBASE-CX4",
	42: "2BASE-TL",
	43: "10PASS-TS",
	44: "100BASE-BX10D",
	45: "100BASE-BX10U",
	46: "100BASE-LX10",
	47: "1000BASE-BX10D",
	48: "1000BASE-BX10U",
	49: "1000BASE-LX10",
	50: "1000BASE-PX10D",
	51: "1000BASE-PX10U",
	52: "1000BASE-PX20D",
	53: "1000BASE-PX20U",
}
