package lldp

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

// said is a TLV as a ramdisk passes it on.
type said struct {
	kind byte
	hex  string
}

// leaf is what a switch of the lab says, as recorded.
var leaf = []said{
	{1, "04001b54aa0101"}, {2, "0545746865726e6574312f31"}, {3, "0078"},
	{4, "75706c696e6b20746f206e6f64652031"}, {5, "6c6561662d31"}, {6, "4c6162207377697463682c206d6f64656c20582d31"},
	{7, "00140014"}, {8, "0501c0000264020000000100"},
	{127, "0080c2010064"}, {127, "0080c203006408766c616e2d313030"}, {127, "0080c203006608766c616e2d313032"},
	{127, "00120f01036c010010"}, {127, "00120f030300000001"}, {127, "00120f042400"}, {0, ""},
}

const leafFacts = `{"switch_chassis_id":"00:1b:54:aa:01:01","switch_port_id":"Ethernet1/1","switch_port_description":"uplink to node 1",` +
	`"switch_system_name":"leaf-1","switch_system_description":"Lab switch, model X-1",` +
	`"switch_capabilities_support":["Bridge","Router"],"switch_capabilities_enabled":["Bridge","Router"],"switch_mgmt_addresses":["192.0.2.100"],` +
	`"switch_port_untagged_vlan_id":100,"switch_port_vlans":[{"name":"vlan-100","id":100},{"name":"vlan-102","id":102}],` +
	`"switch_port_autonegotiation_enabled":true,"switch_port_autonegotiation_support":true,` +
	`"switch_port_physical_capabilities":["1000BASE-T fdx","100BASE-TX fdx","100BASE-TX hdx","10BASE-T fdx","10BASE-T hdx"],"switch_port_mau_type":"100BASE-TX full duplex",` +
	`"switch_port_link_aggregation_enabled":true,"switch_port_link_aggregation_support":true,"switch_port_link_aggregation_id":1,"switch_port_mtu":9216}`

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func asJSON(t testing.TB, f *Facts) string {
	t.Helper()
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestARecordedSwitch(t *testing.T) {
	var f Facts
	if !f.Empty() || asJSON(t, &f) != "{}" {
		t.Error("facts from nowhere")
	}
	for _, s := range leaf {
		if err := f.Add(s.kind, bytesOf(t, s.hex)); err != nil {
			t.Error(err)
		}
	}
	if got := asJSON(t, &f); got != leafFacts {
		t.Errorf("got\n%s\nwant\n%s", got, leafFacts)
	}
	if f.Empty() || f.Text(ChassisID) != "00:1b:54:aa:01:01" || f.Text(PortID) != "Ethernet1/1" ||
		f.Text("switch_port_mtu") != "9216" || f.Text("switch_port_vlans") != "" || f.Text("switch") != "" {
		t.Errorf("%q, %q", f.Text(ChassisID), f.Text(PortID))
	}
}

// readings are single TLVs and what they tell: facts, or why none.
var readings = []struct {
	name string
	said
	want string
}{
	{"chassis, empty", said{1, ""}, "TLV 1: it ends too early"},
	{"chassis, component", said{1, "01616263"}, `{"switch_chassis_id":"abc"}`},
	{"chassis, alias", said{1, "02c3a9"}, `{"switch_chassis_id":"é"}`},
	{"chassis, port component", said{1, "0361"}, `{"switch_chassis_id":"a"}`},
	{"chassis, interface", said{1, "0661"}, `{"switch_chassis_id":"a"}`},
	{"chassis, local, of no letters", said{1, "07"}, `{"switch_chassis_id":""}`},
	{"chassis, MAC", said{1, "04112233AABBCC"}, `{"switch_chassis_id":"11:22:33:aa:bb:cc"}`},
	{"chassis, MAC, padded", said{1, "04112233aabbcc0000"}, `{"switch_chassis_id":"11:22:33:aa:bb:cc"}`},
	{"chassis, MAC, short", said{1, "04112233aabb"}, "TLV 1: it ends too early"},
	{"chassis, IPv4", said{1, "0501c000020f"}, `{"switch_chassis_id":"192.0.2.15"}`},
	{"chassis, IPv6", said{1, "050220010db885a3000000008a2e03707334"},
		`{"switch_chassis_id":"2001:db8:85a3::8a2e:370:7334"}`},
	{"chassis, a small IPv6", said{1, "050200000000000000000000000000000001"}, `{"switch_chassis_id":"::1"}`},
	{"chassis, IPv4 in IPv6", said{1, "050200000000000000000000ffffc0000201"}, `{"switch_chassis_id":"::ffff:192.0.2.1"}`},
	{"chassis, MAC by its family", said{1, "0506aabbccddeeff"}, `{"switch_chassis_id":"aa:bb:cc:dd:ee:ff"}`},
	{"chassis, no family", said{1, "05"}, "TLV 1: it ends too early"},
	{"chassis, another family", said{1, "0503aabbccdd"}, "TLV 1: addresses of family 3 are unknown"},
	{"chassis, IPv6, short", said{1, "0502c0000201"}, "TLV 1: it ends too early"},
	{"chassis, another subtype", said{1, "0861"}, "TLV 1: identifiers of subtype 8 are unknown"},
	{"chassis, the reserved subtype", said{1, "00aa"}, "TLV 1: identifiers of subtype 0 are unknown"},
	{"port, alias", said{2, "0161"}, `{"switch_port_id":"a"}`},
	{"port, component", said{2, "0261"}, `{"switch_port_id":"a"}`},
	{"port, MAC", said{2, "03885a92ec5458"}, `{"switch_port_id":"88:5a:92:ec:54:58"}`},
	{"port, IPv4", said{2, "0401c0000201"}, `{"switch_port_id":"192.0.2.1"}`},
	{"port, circuit", said{2, "0641"}, "TLV 2: identifiers of subtype 6 are unknown"},
	{"port, local", said{2, "07373334"}, `{"switch_port_id":"734"}`},
	{"port, Latin-1", said{2, "05e9"}, "TLV 2: its text is not UTF-8"},
	{"lifetime", said{3, "0078"}, `{}`},
	{"description of nothing", said{4, ""}, `{"switch_port_description":""}`},
	{"name with zeros", said{5, "61006200"}, `{"switch_system_name":"a\u0000b\u0000"}`},
	{"name of half a character", said{5, "c3"}, "TLV 5: its text is not UTF-8"},
	{"name of a surrogate", said{5, "eda080"}, "TLV 5: its text is not UTF-8"},
	{"description with a quote", said{6, "2261"}, `{"switch_system_description":"\"a"}`},
	{"all capabilities, none enabled", said{7, "ffff0000"},
		`{"switch_capabilities_support":["Repeater","Bridge","WLAN","Router","Telephone","DOCSIS cable device","Station only","C-Vlan","S-Vlan","TPMR"],"switch_capabilities_enabled":[]}`},
	{"capabilities, short", said{7, "001400"}, "TLV 7: it has 3 bytes, want 4"},
	{"capabilities, long", said{7, "0014001400"}, "TLV 7: it has 5 bytes, want 4"},
	{"management, IPv6", said{8, "110220010db885a3000000008a2e03707334020000000000"},
		`{"switch_mgmt_addresses":["2001:db8:85a3::8a2e:370:7334"]}`},
	{"management, MAC", said{8, "0706aa11bb22cc3302000003e900"}, `{"switch_mgmt_addresses":["aa:11:bb:22:cc:33"]}`},
	{"management, a length that lies, the address there", said{8, "ff01c0000201"},
		`{"switch_mgmt_addresses":["192.0.2.1"]}`},
	{"management, a length that lies, the address not there", said{8, "0501c00002"}, "TLV 8: it ends too early"},
	{"management, nothing", said{8, "05"}, "TLV 8: it ends too early"},
	{"management, another family", said{8, "0507c000020f020000000000"}, "TLV 8: addresses of family 7 are unknown"},
	{"a reserved type", said{9, "ff"}, `{}`},
	{"a type that cannot be", said{255, "ff"}, `{}`},
}

// organisations are TLVs of organisations, as readings.
var organisations = []struct {
	name string
	said
	want string
}{
	{"no subtype", said{127, "0080c2"}, "TLV 127: it ends too early"},
	{"another organisation", said{127, "00906901425030323134"}, `{}`},
	{"LLDP-MED", said{127, "0012bb01003304"}, `{}`},
	{"802.1, another subtype", said{127, "0080c2ff"}, `{}`},
	{"802.3, another subtype", said{127, "00120fff"}, `{}`},
	{"VLAN", said{127, "0080c2010066"}, `{"switch_port_untagged_vlan_id":102}`},
	{"VLAN, padded", said{127, "0080c201006600"}, `{"switch_port_untagged_vlan_id":102}`},
	{"VLAN, half", said{127, "0080c20100"}, "TLV 127: 0080c2 subtype 1: it ends too early"},
	{"protocol VLAN", said{127, "0080c20206000a"},
		`{"switch_port_protocol_vlan_enabled":true,"switch_port_protocol_vlan_support":true,"switch_port_protocol_vlan_ids":[10]}`},
	{"protocol VLAN, other flags", said{127, "0080c202fb000a"},
		`{"switch_port_protocol_vlan_enabled":false,"switch_port_protocol_vlan_support":true,"switch_port_protocol_vlan_ids":[10]}`},
	{"protocol VLAN, long", said{127, "0080c20206000a00"}, "TLV 127: 0080c2 subtype 2: it has 4 bytes, want 3"},
	{"VLAN's name", said{127, "0080c203006507766c616e313031"}, `{"switch_port_vlans":[{"name":"vlan101","id":101}]}`},
	{"VLAN's name, padded with zeros", said{127, "0080c20300650476007600"},
		`{"switch_port_vlans":[{"name":"v\u0000v","id":101}]}`},
	{"VLAN's name, something behind it", said{127, "0080c20300650176ffff"},
		`{"switch_port_vlans":[{"name":"v","id":101}]}`},
	{"VLAN's name, of no letters", said{127, "0080c203006500"}, `{"switch_port_vlans":[{"name":"","id":101}]}`},
	{"VLAN's name, a length that lies", said{127, "0080c20300650776"}, "TLV 127: 0080c2 subtype 3: it ends too early"},
	{"VLAN's name, no length", said{127, "0080c2030065"}, "TLV 127: 0080c2 subtype 3: it ends too early"},
	{"VLAN's name, Latin-1", said{127, "0080c203006501e9"}, "TLV 127: 0080c2 subtype 3: its text is not UTF-8"},
	{"protocol", said{127, "0080c204080026424203000000"}, `{"switch_protocol_identities":["0026424203000000"]}`},
	{"protocol, something behind it", said{127, "0080c20401AAbb"}, `{"switch_protocol_identities":["aa"]}`},
	{"protocol, of nothing", said{127, "0080c20400"}, `{"switch_protocol_identities":[""]}`},
	{"protocol, a length that lies", said{127, "0080c204ff00"}, "TLV 127: 0080c2 subtype 4: it ends too early"},
	{"protocol, no length", said{127, "0080c204"}, "TLV 127: 0080c2 subtype 4: it ends too early"},
	{"management VLAN", said{127, "0080c2060058"}, `{"switch_port_management_vlan_id":88}`},
	{"aggregation by 802.1", said{127, "0080c2070200000007"},
		`{"switch_port_link_aggregation_enabled":true,"switch_port_link_aggregation_support":false,"switch_port_link_aggregation_id":7}`},
	{"aggregation by 802.3", said{127, "00120f03fdffffffff"},
		`{"switch_port_link_aggregation_enabled":false,"switch_port_link_aggregation_support":true,"switch_port_link_aggregation_id":4294967295}`},
	{"aggregation, long", said{127, "0080c207030000000100"}, "TLV 127: 0080c2 subtype 7: it has 6 bytes, want 5"},
	{"aggregation, short", said{127, "00120f0303"}, "TLV 127: 00120f subtype 3: it has 1 bytes, want 5"},
	{"MTU", said{127, "00120f0405ea"}, `{"switch_port_mtu":1514}`},
	{"MTU, nothing", said{127, "00120f04"}, "TLV 127: 00120f subtype 4: it ends too early"},
	{"wire, half duplex alone", said{127, "00120f010140000010"},
		wire("false", "true", "100BASE-TX full duplex", `"10BASE-T hdx"`)},
	{"wire, full duplex alone", said{127, "00120f01022000001e"},
		wire("true", "false", "1000BASE-T full duplex", `"10BASE-T fdx"`)},
	{"wire, everything", said{127, "00120f0103ffff0035"},
		wire("true", "true", "1000BASE-PX20U", `"1000BASE-T fdx","1000BASE-T hdx","1000BASE-X fdx","1000BASE-X hdx",`+
			`"100BASE-T2 fdx","100BASE-T2 hdx","100BASE-TX fdx","100BASE-TX hdx","10BASE-T fdx","10BASE-T hdx","10BASE-T4","Asym PAUSE fdx","Asym and Sym PAUSE fdx","PAUSE fdx","Sym PAUSE fdx"`)},
	{"wire, nothing", said{127, "00120f010080000000"}, wire("false", "false", "Unknown", "")},
	{"wire, another MAU", said{127, "00120f01036c110036"}, "TLV 127: 00120f subtype 1: MAUs of type 54 are unknown"},
	{"wire, short", said{127, "00120f01036c11"}, "TLV 127: 00120f subtype 1: it has 3 bytes, want 5"},
}

func wire(enabled, support, mau, modes string) string {
	return `{"switch_port_autonegotiation_enabled":` + enabled + `,"switch_port_autonegotiation_support":` + support +
		`,"switch_port_physical_capabilities":[` + modes + `],"switch_port_mau_type":"` + mau + `"}`
}

func TestReadings(t *testing.T) {
	for _, tt := range append(readings, organisations...) {
		t.Run(tt.name, func(t *testing.T) {
			var f Facts
			err := f.Add(tt.kind, bytesOf(t, tt.hex))
			got := asJSON(t, &f)
			if err != nil {
				if !f.Empty() {
					t.Errorf("it told %s all the same", got)
				}
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestWhatIsSaidTwice(t *testing.T) {
	var f Facts
	for _, s := range []said{{1, "04112233aabbcc"}, {1, "0773773031"}, {8, "0501c0000264"}, {8, "0501c0000264"},
		{127, "0080c2010001"}, {127, "0080c2010002"},
		{127, "0080c20206000a"}, {127, "0080c202000014"}, {127, "0080c204010a"}, {127, "0080c204010b"}} {
		if err := f.Add(s.kind, bytesOf(t, s.hex)); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"switch_chassis_id":"11:22:33:aa:bb:cc","switch_mgmt_addresses":["192.0.2.100","192.0.2.100"],"switch_port_untagged_vlan_id":1,` +
		`"switch_port_protocol_vlan_enabled":true,"switch_port_protocol_vlan_support":true,"switch_port_protocol_vlan_ids":[10,20],"switch_protocol_identities":["0a","0b"]}`
	if got := asJSON(t, &f); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheValueIsNotKept(t *testing.T) {
	var f Facts
	value := []byte("\x07sw01")
	if err := f.Add(1, value); err != nil {
		t.Fatal(err)
	}
	clear(value)
	if got := f.Text(ChassisID); got != "sw01" {
		t.Errorf("%q", got)
	}
}

func TestLongValues(t *testing.T) {
	var f Facts
	if err := f.Add(5, []byte(strings.Repeat("a", 511))); err != nil {
		t.Error(err)
	}
	const want = "TLV 6: 512 bytes are more than the 511 of a TLV"
	if err := f.Add(6, []byte(strings.Repeat("a", 512))); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// BenchmarkAdd reads what a switch says, to the JSON that is kept of it.
func BenchmarkAdd(b *testing.B) {
	var values [][]byte
	for _, s := range leaf {
		values = append(values, bytesOf(b, s.hex))
	}
	b.ReportAllocs()
	for b.Loop() {
		var f Facts
		for i, s := range leaf {
			if err := f.Add(s.kind, values[i]); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := f.MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(leaf))/b.Elapsed().Seconds(), "TLV/s")
}
