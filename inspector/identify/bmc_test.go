package identify

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
)

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
		"192.0.2.78": v4, "192.0.2.78:8443": v4, "192.0.2.78:8443/redfish/v1": v4, " 192.0.2.78 ": v4,
		"https://192.0.2.78": v4, "HTTP://192.0.2.78:8000/": v4,
		"root:secret@192.0.2.78": v4, "//192.0.2.78/": v4, "192.0.2.78/redfish": v4, "ipmi://192.0.2.78:6230": v4,
		"redfish+https://192.0.2.78/redfish/v1/Systems/1": v4,
		"2001:db8::78": v6, "[2001:DB8::78]": v6, "[2001:db8::78]:8443": v6, "[2001:db8::78]:8443/redfish": v6,
		"https://[2001:db8::78]:8443/redfish": v6,
		"[fe80::1%25eth0]:443":                {"fe80::1"}, "fe80::1%eth0": {"fe80::1"}, "[::ffff:192.0.2.78]:443": v4,
		"bmc.example": both, "bmc.example:443": both, "https://bmc.example:443/redfish/v1": both,
		"https://%zz/": nil, "https://": nil, "/redfish/v1": nil, "192.0.2.78:port": nil, "192.0.2.78:66000": nil,
		"192.0.2.78:0": nil, ":8443": nil, "[2001:db8::78": nil, "2001:db8::78]:443": nil,
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
		{"the first that is there",
			info{"ipmi_address": "", "redfish_address": nil, "drac_address": "198.18.0.4", "ibmc_address": "198.18.0.5"},
			[]string{"198.18.0.4"}, ""},
		{"a URL", info{"redfish_address": "https://root@bmc.example:8443/redfish"}, []string{"198.18.0.1", "2001:db8::1"},
			""},
		{"a URL with IPv6", info{"redfish_address": "https://[2001:db8::1]:8443"}, []string{"2001:db8::1"}, ""},
		{"behind a bridge", info{"ipmi_address": "198.18.0.1", "ipmi_bridging": "single"}, nil, ""},
		{"behind none", info{"ipmi_address": "198.18.0.1", "ipmi_bridging": "no"}, []string{"198.18.0.1"}, ""},
		{"loopback", info{"ipmi_address": "self.example"}, nil, "driver_info.ipmi_address of node n: self.example"},
		{"loopback and another", info{"ipmi_address": "both.example"}, []string{"198.18.0.9"}, ""},
		{"nowhere", info{"ipmi_address": "gone.example"}, nil, `driver_info.ipmi_address of node n: resolve "gone.example"`},
		{"a number", info{"ilo_address": 5, "drac_address": "198.18.0.4"}, nil,
			"driver_info.ilo_address of node n is no address of a BMC: want HOST, HOST:PORT, [IPV6]:PORT or a URL"},
		{"many", info{"ipmi_address": "many.example"}, many[:maxBMCAddresses], ""},
	}
	for _, field := range []string{"ipmi_address", "redfish_address", "ilo_address", "drac_host", "drac_address",
		"ibmc_address"} {
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
			got, err := BMCAddresses(t.Context(), hosts, "n", tt.info, config.Default().Inspection.IPMIAddressFields)
			if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.fail == "") ||
				err != nil && !strings.HasPrefix(err.Error(), tt.fail) {
				t.Errorf("got %v, %v, want %v, %s", got, err, tt.want, tt.fail)
			}
		})
	}
}
