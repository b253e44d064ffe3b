package lldp

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// pdu is an LLDP frame's payload: the TLVs that it must have and one more.
func pdu(kind byte, value []byte) []byte {
	out := []byte{1 << 1, 2, 7, 'c', 2 << 1, 2, 7, 'p', 3 << 1, 2, 0, 120}
	out = append(out, kind<<1|byte(len(value)>>8), byte(len(value)))
	return append(append(out, value...), 0, 0)
}

// told are facts by name; nil: gopacket cannot say, or says it otherwise than
// the contract wants it.
type told map[string]any

// ask returns what gopacket makes of a TLV.
func ask(kind byte, value []byte) told {
	p := gopacket.NewPacket(pdu(kind, value), layers.LayerTypeLinkLayerDiscovery, gopacket.Default)
	frame, _ := p.Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
	info, _ := p.Layer(layers.LayerTypeLinkLayerDiscoveryInfo).(*layers.LinkLayerDiscoveryInfo)
	if frame == nil || info == nil || p.ErrorLayer() != nil {
		return nil
	}
	switch kind {
	case 1:
		return askChassis(frame.ChassisID)
	case 2:
		return askPort(frame.PortID)
	case 4:
		return text("switch_port_description", []byte(info.PortDescription))
	case 5:
		return text("switch_system_name", []byte(info.SysName))
	case 6:
		return text("switch_system_description", []byte(info.SysDescription))
	case 7:
		if len(value) != 4 {
			return nil
		}
		return told{"switch_capabilities_support": capabilities(info.SysCapabilities.SystemCap),
			"switch_capabilities_enabled": capabilities(info.SysCapabilities.EnabledCap)}
	case 8:
		return address("switch_mgmt_addresses", info.MgmtAddress.Subtype, info.MgmtAddress.Address,
			func(a string) any { return []any{a} })
	case 127:
		return askOrganisation(info)
	default:
		return told{}
	}
}

func text(name string, value []byte) told {
	if !utf8.Valid(value) {
		return nil
	}
	return told{name: string(value)}
}

func plain(a string) any { return a }

// address writes an address that is exactly as long as its family's are.
func address(name string, family layers.IANAAddressFamily, raw []byte, as func(string) any) told {
	switch ip, ok := netip.AddrFromSlice(raw); {
	case family == layers.IANAAddressFamily802 && len(raw) == 6:
		return told{name: as(net.HardwareAddr(raw).String())}
	case ok && (family == layers.IANAAddressFamilyIPV4 && ip.Is4() || family == layers.IANAAddressFamilyIPV6 && !ip.Is4()):
		return told{name: as(ip.String())}
	}
	return nil
}

func askChassis(id layers.LLDPChassisID) told {
	switch id.Subtype {
	case layers.LLDPChassisIDSubTypeMACAddr:
		return address(ChassisID, layers.IANAAddressFamily802, id.ID, plain)
	case layers.LLDPChassisIDSubTypeNetworkAddr:
		return address(ChassisID, layers.IANAAddressFamily(id.ID[0]), id.ID[1:], plain)
	case layers.LLDPChassisIDSubTypeChassisComp, layers.LLDPChassisIDSubtypeIfaceAlias,
		layers.LLDPChassisIDSubTypePortComp,
		layers.LLDPChassisIDSubtypeIfaceName, layers.LLDPChassisIDSubTypeLocal:
		return text(ChassisID, id.ID)
	}
	return nil
}

func askPort(id layers.LLDPPortID) told {
	switch id.Subtype {
	case layers.LLDPPortIDSubtypeMACAddr:
		return address(PortID, layers.IANAAddressFamily802, id.ID, plain)
	case layers.LLDPPortIDSubtypeNetworkAddr:
		return address(PortID, layers.IANAAddressFamily(id.ID[0]), id.ID[1:], plain)
	case layers.LLDPPortIDSubtypeIfaceAlias, layers.LLDPPortIDSubtypePortComp, layers.LLDPPortIDSubtypeIfaceName,
		layers.LLDPPortIDSubtypeLocal:
		return text(PortID, id.ID)
	}
	return nil
}

func capabilities(c layers.LLDPCapabilities) []any {
	names := []any{}
	for i, there := range []bool{c.Repeater, c.Bridge, c.WLANAP, c.Router, c.Phone, c.DocSis, c.StationOnly, c.CVLAN,
		c.SVLAN, c.TMPR} {
		if there {
			names = append(names, capabilityNames[i])
		}
	}
	return names
}

func askOrganisation(info *layers.LinkLayerDiscoveryInfo) told {
	if len(info.OrgTLVs) != 1 {
		return nil
	}
	tlv := info.OrgTLVs[0]
	switch tlv.OUI {
	case layers.IEEEOUI8021:
		is, err := info.Decode8021()
		if err != nil {
			return nil
		}
		return askDot1(tlv, is)
	case layers.IEEEOUI8023:
		is, err := info.Decode8023()
		if err != nil {
			return nil
		}
		return askDot3(tlv, is)
	}
	return told{}
}

func askDot1(tlv layers.LLDPOrgSpecificTLV, is layers.LLDPInfo8021) told {
	switch {
	case tlv.SubType == layers.LLDP8021SubtypePortVLANID:
		return told{"switch_port_untagged_vlan_id": float64(is.PVID)}
	case tlv.SubType == layers.LLDP8021SubtypeProtocolVLANID && len(tlv.Info) == 3:
		vlan := is.PPVIDs[0]
		return told{"switch_port_protocol_vlan_enabled": vlan.Enabled, "switch_port_protocol_vlan_support": vlan.Supported,
			"switch_port_protocol_vlan_ids": []any{float64(vlan.ID)}}
	case tlv.SubType == layers.LLDP8021SubtypeVLANName && int(tlv.Info[2]) == len(tlv.Info)-3 && utf8.Valid(tlv.Info[3:]):
		vlan := is.VLANNames[0]
		return told{"switch_port_vlans": []any{
			map[string]any{"name": strings.TrimRight(vlan.Name, "\x00"), "id": float64(vlan.ID)}}}
	case tlv.SubType == layers.LLDP8021SubtypeManagementVID:
		return told{"switch_port_management_vlan_id": float64(is.ManagementVID)}
	case tlv.SubType == layers.LLDP8021SubtypeLinkAggregation && len(tlv.Info) == 5:
		return aggregation(is.LinkAggregation)
	}
	return nil
}

func aggregation(a layers.LLDPLinkAggregation) told {
	return told{"switch_port_link_aggregation_enabled": a.Enabled, "switch_port_link_aggregation_support": a.Supported,
		"switch_port_link_aggregation_id": float64(a.PortID)}
}

func askDot3(tlv layers.LLDPOrgSpecificTLV, is layers.LLDPInfo8023) told {
	switch {
	case tlv.SubType == layers.LLDP8023SubtypeMACPHY && len(tlv.Info) == 5 &&
		int(is.MACPHYConfigStatus.MAUType) < len(mauTypes):
		c := is.MACPHYConfigStatus
		return told{"switch_port_autonegotiation_enabled": c.AutoNegEnabled,
			"switch_port_autonegotiation_support": c.AutoNegSupported,
			"switch_port_physical_capabilities":   modesByGopacket(c.AutoNegCapability),
			"switch_port_mau_type":                mauTypes[c.MAUType]}
	case tlv.SubType == layers.LLDP8023SubtypeLinkAggregation && len(tlv.Info) == 5:
		return aggregation(is.LinkAggregation)
	case tlv.SubType == layers.LLDP8023SubtypeMTU:
		return told{"switch_port_mtu": float64(is.MTU)}
	}
	return nil
}

func modesByGopacket(bits uint16) []any {
	var names []string
	for bit, name := range map[uint16]string{
		layers.LLDPMAUPMD10BaseT: "10BASE-T hdx", layers.LLDPMAUPMD10BaseT_FD: "10BASE-T fdx",
		layers.LLDPMAUPMD100BaseT4: "10BASE-T4",
		layers.LLDPMAUPMD100BaseTX: "100BASE-TX hdx", layers.LLDPMAUPMD100BaseTX_FD: "100BASE-TX fdx",
		layers.LLDPMAUPMD100BaseT2: "100BASE-T2 hdx", layers.LLDPMAUPMD100BaseT2_FD: "100BASE-T2 fdx",
		layers.LLDPMAUPMDFDXPAUSE: "PAUSE fdx", layers.LLDPMAUPMDFDXAPAUSE: "Asym PAUSE fdx",
		layers.LLDPMAUPMDFDXSPAUSE: "Sym PAUSE fdx", layers.LLDPMAUPMDFDXBPAUSE: "Asym and Sym PAUSE fdx",
		layers.LLDPMAUPMD1000BaseX: "1000BASE-X hdx", layers.LLDPMAUPMD1000BaseX_FD: "1000BASE-X fdx",
		layers.LLDPMAUPMD1000BaseT: "1000BASE-T hdx", layers.LLDPMAUPMD1000BaseT_FD: "1000BASE-T fdx",
	} {
		if bits&bit != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := []any{}
	for _, name := range names {
		out = append(out, name)
	}
	return out
}

// check holds one TLV against gopacket and the promises of Add.
func check(t *testing.T, kind byte, value []byte) {
	t.Helper()
	before := bytes.Clone(value)
	var f Facts
	err := f.Add(kind, value)
	if !bytes.Equal(value, before) {
		t.Fatalf("TLV %d %x was changed to %x", kind, before, value)
	}
	if err != nil && (!f.Empty() || len(err.Error()) > 100) {
		t.Fatalf("TLV %d %x: %v, and %s", kind, value, err, asJSON(t, &f))
	}
	var got told
	if raw := asJSON(t, &f); json.Unmarshal([]byte(raw), &got) != nil || !utf8.ValidString(raw) {
		t.Fatalf("TLV %d %x: not JSON: %s", kind, value, raw)
	}
	if kind > 127 || len(value) > maxValue {
		return // no frame holds it
	}
	if want := ask(kind, value); want != nil && (err != nil || !reflect.DeepEqual(got, want)) {
		t.Fatalf("TLV %d %x: %v, %v\ngopacket: %v", kind, value, got, err, want)
	}
}

// TestOracle shows that gopacket has an opinion of all that a switch of the lab
// says, and of the TLVs of the table that are as they should be.
func TestOracle(t *testing.T) {
	for _, s := range leaf {
		check(t, s.kind, bytesOf(t, s.hex))
		if ask(s.kind, bytesOf(t, s.hex)) == nil {
			t.Errorf("gopacket does not know TLV %d %s", s.kind, s.hex)
		}
	}
	for _, tt := range append(readings, organisations...) {
		check(t, tt.kind, bytesOf(t, tt.hex))
	}
}

// FuzzLLDP reads anything at all: bytes in the form of a frame's payload, but
// with lengths that may lie.
func FuzzLLDP(f *testing.F) {
	var frame []byte
	for _, tt := range append(readings, organisations...) {
		f.Add(pdu(tt.kind, bytesOf(f, tt.hex)))
	}
	for _, s := range leaf {
		value := bytesOf(f, s.hex)
		frame = append(append(frame, s.kind<<1|byte(len(value)>>8), byte(len(value))), value...)
	}
	f.Add(frame)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all Facts
		for len(raw) >= 2 {
			kind, length := raw[0]>>1, int(raw[0]&1)<<8|int(raw[1])
			value := raw[2:min(2+length, len(raw))]
			check(t, kind, value)
			check(t, kind|0x80, value)
			_ = all.Add(kind, value) // check has looked at the error
			raw = raw[2+len(value):]
		}
		if text := asJSON(t, &all); !json.Valid([]byte(text)) {
			t.Fatal(text)
		}
	})
}
