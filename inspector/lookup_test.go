package inspector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

func TestMachineOf(t *testing.T) {
	tests := []struct {
		name, text string
		want       introspection.Attributes
	}{
		{"nothing", `{}`, introspection.Attributes{}},
		{"inventory of another shape", `{"inventory": [1]}`, introspection.Attributes{}},
		{"interfaces of another shape", `{"inventory": {"interfaces": {"a": 1}, "bmc_address": 5}}`, introspection.Attributes{}},
		{"all interfaces, also lo", `{"inventory": {"interfaces": [
			{"name": "eth0", "mac_address": "52:54:00:0B:00:0a"}, {"name": "eth1", "mac_address": "52:54:00:0b:00:01"},
			{"name": "eth2", "mac_address": "52:54:00:0b:00:0A"}, {"name": "lo", "mac_address": "00:00:00:00:00:00"}]}}`,
			introspection.Attributes{MACs: []string{"52:54:00:0b:00:0a", "52:54:00:0b:00:01", "00:00:00:00:00:00"}}},
		{"interfaces that are none", `{"inventory": {"interfaces": [null, 1, {"name": "eth0"}, {"name": "eth1", "mac_address": "zz"}, {"mac_address": "52:54:00:0b:00:01"},
			{"name": "a", "mac_address": "52-54-00-0b-00-01"}, {"name": "a", "mac_address": null}, {"name": "", "mac_address": "52:54:00:0b:00:01"},
			{"NAME": "a", "mac_address": "52:54:00:0b:00:01"}, {"name": "a", "mac_address": "52:54:00:0b:00:0g"}]}}`, introspection.Attributes{}},
		{"BMC", `{"inventory": {"bmc_address": "198.18.0.1", "bmc_v6address": "2001:DB8::1"}, "ipmi_address": "198.18.0.2"}`, introspection.Attributes{BMC: []string{"198.18.0.1", "2001:db8::1"}}},
		{"BMC that is absent", `{"inventory": {"bmc_address": "0.0.0.0", "bmc_v6address": "::/0"}}`, introspection.Attributes{}},
		{"BMC that is empty", `{"inventory": {"bmc_address": "", "bmc_v6address": ""}}`, introspection.Attributes{}},
		{"BMC that is no address", `{"inventory": {"bmc_address": "N/A", "bmc_v6address": "::"}}`, introspection.Attributes{}},
		{"null hides the old key", `{"inventory": {"bmc_address": null}, "ipmi_address": "198.18.0.2", "ipmi_v6address": "fe80::1%eth0"}`, introspection.Attributes{BMC: []string{"fe80::1"}}},
		{"old ramdisk", `{"ipmi_address": "198.18.0.2", "ipmi_v6address": "2001:db8::2"}`, introspection.Attributes{BMC: []string{"198.18.0.2", "2001:db8::2"}}},
		{"twice the same", `{"inventory": {"bmc_address": "198.18.0.1", "bmc_v6address": "::ffff:198.18.0.1"}}`, introspection.Attributes{BMC: []string{"198.18.0.1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := MachineOf(parsed(t, tt.text)).Attributes; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAttributesAreBounded(t *testing.T) {
	if got := MachineOf(parsed(t, string(ramdiskSample(3000)))); len(got.MACs) != maxInterfaces {
		t.Errorf("%d MACs", len(got.MACs))
	}
}

// found is a Finder: nodes by MAC or address.
type found map[string][]string

func (f found) NodesByMAC(mac string) []string     { return f[mac] }
func (f found) NodesByBMC(address string) []string { return f[address] }

func (found) Record(string) (rec introspection.Record, known bool) { return rec, false }

func TestLookUp(t *testing.T) {
	nodes := found{
		"mac-a": {"a"}, "mac-a2": {"a"}, "mac-b": {"b"}, "mac-shared": {"b", "a"},
		"bmc-a": {"a"}, "bmc-b": {"b"}, "bmc-chassis": {"a", "b", "c"},
	}
	tests := []struct {
		name      string
		macs, bmc []string
		want      string
		problem   string
	}{
		{"by MAC", []string{"mac-x", "mac-a"}, []string{"bmc-x"}, "a", ""},
		{"by BMC", []string{"mac-x"}, []string{"bmc-b"}, "b", ""},
		{"by both", []string{"mac-a"}, []string{"bmc-a"}, "a", ""},
		{"a chassis with one BMC", []string{"mac-b"}, []string{"bmc-chassis"}, "b", ""},
		{"two MACs are one point", []string{"mac-a", "mac-a2", "mac-b"}, nil, "",
			"Multiple nodes match the same number of attributes {'bmc_address': [], 'mac': ['mac-a', 'mac-a2', 'mac-b']}: ['a', 'b']"},
		{"MAC of one, BMC of another", []string{"mac-b"}, []string{"bmc-a"}, "",
			"Multiple nodes match the same number of attributes {'bmc_address': ['bmc-a'], 'mac': ['mac-b']}: ['a', 'b']"},
		{"no node", []string{"mac-x"}, []string{"bmc-x", "bmc-y"}, "",
			"Could not find a node for attributes {'bmc_address': ['bmc-x', 'bmc-y'], 'mac': ['mac-x']}"},
		{"nothing to go by", nil, nil, "", "Could not find a node for attributes {'bmc_address': [], 'mac': []}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := LookUp(nodes, Machine{Attributes: introspection.Attributes{MACs: tt.macs, BMC: tt.bmc}})
			if tt.problem == "" && (err != nil || got != tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if tt.problem != "" && (err == nil || err.Error() != tt.problem) {
				t.Errorf("got %v, want %s", err, tt.problem)
			}
		})
	}
}

func TestLookUpTextIsBounded(t *testing.T) {
	macs := make([]string, maxInterfaces)
	for i := range macs {
		macs[i] = fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255)
	}
	_, err := LookUp(found{}, Machine{Attributes: introspection.Attributes{MACs: macs}})
	if err == nil || len(err.Error()) > 1000 || !strings.HasSuffix(err.Error(), ", ...]}") {
		t.Errorf("%v", err)
	}
}

// zone is a Resolver that knows these hosts.
type zone map[string][]string

func (z zone) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("a look-up without a deadline")
	}
	texts, ok := z[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var ips []netip.Addr
	for _, text := range texts {
		ips = append(ips, netip.MustParseAddr(text))
	}
	return ips, nil
}

// bmcForms are addresses of BMCs in all forms, and what they mean: nil, if
// nothing does.
func bmcForms() map[string][]string {
	v4, v6, both := []string{"192.0.2.78"}, []string{"2001:db8::78"}, []string{"198.18.0.1", "2001:db8::1"}
	return map[string][]string{
		"192.0.2.78": v4, "192.0.2.78:8443": v4, "192.0.2.78:8443/redfish/v1": v4, " 192.0.2.78 ": v4, "https://192.0.2.78": v4, "HTTP://192.0.2.78:8000/": v4,
		"root:secret@192.0.2.78": v4, "//192.0.2.78/": v4, "192.0.2.78/redfish": v4, "ipmi://192.0.2.78:6230": v4, "redfish+https://192.0.2.78/redfish/v1/Systems/1": v4,
		"2001:db8::78": v6, "[2001:DB8::78]": v6, "[2001:db8::78]:8443": v6, "[2001:db8::78]:8443/redfish": v6, "https://[2001:db8::78]:8443/redfish": v6,
		"[fe80::1%25eth0]:443": {"fe80::1"}, "fe80::1%eth0": {"fe80::1"}, "[::ffff:192.0.2.78]:443": v4,
		"bmc.example": both, "bmc.example:443": both, "https://bmc.example:443/redfish/v1": both,
		"https://%zz/": nil, "https://": nil, "/redfish/v1": nil, "192.0.2.78:port": nil, "192.0.2.78:66000": nil, "192.0.2.78:0": nil, ":8443": nil, "[2001:db8::78": nil, "2001:db8::78]:443": nil,
		"[bmc.example]:443": nil, "two words": nil, "https://two words/": nil, "a,b": nil, " ": nil,
	}
}

func TestBMCAddresses(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("198.18.7.%d", i+1)
	}
	hosts := zone{
		"bmc.example": {"198.18.0.1", "2001:db8::1", "::ffff:198.18.0.1"}, "self.example": {"127.0.0.1", "::1"},
		"both.example": {"127.0.1.1", "198.18.0.9"}, "many.example": many,
	}
	type info = map[string]any
	tests := []struct {
		name string
		info info
		want []string
		fail string
	}{
		{"none", nil, nil, ""},
		{"an address", info{"ipmi_address": "198.18.0.1"}, []string{"198.18.0.1"}, ""},
		{"IPv6", info{"ipmi_address": "2001:DB8:0::1"}, []string{"2001:db8::1"}, ""},
		{"IPv6 in brackets", info{"drac_host": "[2001:db8::1]"}, []string{"2001:db8::1"}, ""},
		{"a name", info{"ipmi_address": "bmc.example"}, []string{"198.18.0.1", "2001:db8::1"}, ""},
		{"the first that is there", info{"ipmi_address": "", "redfish_address": nil, "drac_address": "198.18.0.4", "ibmc_address": "198.18.0.5"}, []string{"198.18.0.4"}, ""},
		{"a URL", info{"redfish_address": "https://root@bmc.example:8443/redfish"}, []string{"198.18.0.1", "2001:db8::1"}, ""},
		{"a URL with IPv6", info{"redfish_address": "https://[2001:db8::1]:8443"}, []string{"2001:db8::1"}, ""},
		{"behind a bridge", info{"ipmi_address": "198.18.0.1", "ipmi_bridging": "single"}, nil, ""},
		{"behind none", info{"ipmi_address": "198.18.0.1", "ipmi_bridging": "no"}, []string{"198.18.0.1"}, ""},
		{"loopback", info{"ipmi_address": "self.example"}, nil, "driver_info.ipmi_address of node n: self.example"},
		{"loopback and another", info{"ipmi_address": "both.example"}, []string{"198.18.0.9"}, ""},
		{"nowhere", info{"ipmi_address": "gone.example"}, nil, `driver_info.ipmi_address of node n: resolve "gone.example"`},
		{"a number", info{"ilo_address": 5, "drac_address": "198.18.0.4"}, nil, "driver_info.ilo_address of node n is no address of a BMC: want HOST, HOST:PORT, [IPV6]:PORT or a URL"},
		{"many", info{"ipmi_address": "many.example"}, many[:maxBMCAddresses], ""},
	}
	for _, field := range []string{"ipmi_address", "redfish_address", "ilo_address", "drac_host", "drac_address", "ibmc_address"} {
		for text, want := range bmcForms() {
			tt := tests[0]
			tt.name, tt.info, tt.want = field+" "+text, info{field: text}, want
			if want == nil {
				tt.fail = "driver_info." + field + " of node n is no address of a BMC"
			}
			tests = append(tests, tt)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := BMCAddresses(t.Context(), hosts, Node{UUID: "n", DriverInfo: tt.info}, config.Default().Inspection.IPMIAddressFields)
			if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.fail == "") || err != nil && !strings.HasPrefix(err.Error(), tt.fail) {
				t.Errorf("got %v, %v, want %v, %s", got, err, tt.want, tt.fail)
			}
		})
	}
}

// The beginning of a document is searched for MACs, and for nothing that only looks so.
func TestMACsAtTheBeginning(t *testing.T) {
	for text, want := range map[string]string{
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":"52:54:00:AB:00:01","lldp":null},{"mac_address":"52:54:00:ab:00:02"}`: "52:54:00:ab:00:01 52:54:00:ab:00:02",
		`{"a":"52:54:00:ab:00:0`:                       "",
		`"52:54:00:ab:00:01"`:                          "52:54:00:ab:00:01",
		`{"a":"52:54:00:ab:00:01:02","b":"52-54-00-"}`: "",
		strings.Repeat(`"`, 4096):                      "",
		"":                                             "",
	} {
		var got []string
		for rest := []byte(text); ; {
			mac, more, ok := nextMAC(rest)
			if !ok {
				break
			}
			got, rest = append(got, mac), more
		}
		if strings.Join(got, " ") != want {
			t.Errorf("first-macs: %.100s: %v, want %s", text, got, want)
		}
	}
}
