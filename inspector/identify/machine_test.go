package identify

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// parsed is a ramdisk's document.
func parsed(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMachineOf(t *testing.T) {
	tests := []struct {
		name, text string
		want       introspection.Attributes
	}{
		{"nothing", `{}`, introspection.Attributes{}},
		{"inventory of another shape", `{"inventory": [1]}`, introspection.Attributes{}},
		{"interfaces of another shape", `{"inventory": {"interfaces": {"a": 1}, "bmc_address": 5}}`,
			introspection.Attributes{}},
		{"all interfaces, also lo", `{"inventory": {"interfaces": [
			{"name": "eth0", "mac_address": "52:54:00:0B:00:0a"}, {"name": "eth1", "mac_address": "52:54:00:0b:00:01"},
			{"name": "eth2", "mac_address": "52:54:00:0b:00:0A"}, {"name": "lo", "mac_address": "00:00:00:00:00:00"}]}}`,
			introspection.Attributes{MACs: []string{"52:54:00:0b:00:0a", "52:54:00:0b:00:01", "00:00:00:00:00:00"}}},
		{"interfaces that are none", `{"inventory": {"interfaces": [null, 1, {"name": "eth0"}, {"name": "eth1", "mac_address": "zz"}, {"mac_address": "52:54:00:0b:00:01"},
			{"name": "a", "mac_address": "52-54-00-0b-00-01"}, {"name": "a", "mac_address": null}, {"name": "", "mac_address": "52:54:00:0b:00:01"},
			{"NAME": "a", "mac_address": "52:54:00:0b:00:01"}, {"name": "a", "mac_address": "52:54:00:0b:00:0g"}]}}`, introspection.Attributes{}},
		{"BMC", `{"inventory": {"bmc_address": "198.18.0.1", "bmc_v6address": "2001:DB8::1"}, "ipmi_address": "198.18.0.2"}`,
			introspection.Attributes{BMC: []string{"198.18.0.1", "2001:db8::1"}}},
		{"BMC that is absent", `{"inventory": {"bmc_address": "0.0.0.0", "bmc_v6address": "::/0"}}`,
			introspection.Attributes{}},
		{"BMC that is empty", `{"inventory": {"bmc_address": "", "bmc_v6address": ""}}`, introspection.Attributes{}},
		{"BMC that is no address", `{"inventory": {"bmc_address": "N/A", "bmc_v6address": "::"}}`,
			introspection.Attributes{}},
		{"null hides the old key",
			`{"inventory": {"bmc_address": null}, "ipmi_address": "198.18.0.2", "ipmi_v6address": "fe80::1%eth0"}`,
			introspection.Attributes{BMC: []string{"fe80::1"}}},
		{"old ramdisk", `{"ipmi_address": "198.18.0.2", "ipmi_v6address": "2001:db8::2"}`,
			introspection.Attributes{BMC: []string{"198.18.0.2", "2001:db8::2"}}},
		{"BMC by the address that it has towards its host",
			`{"inventory": {"bmc_address": "169.254.3.1", "bmc_v6address": "fe80::1"}}`,
			introspection.Attributes{BMC: []string{"fe80::1"}}},
		{"twice the same", `{"inventory": {"bmc_address": "198.18.0.1", "bmc_v6address": "::ffff:198.18.0.1"}}`,
			introspection.Attributes{BMC: []string{"198.18.0.1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Of(parsed(t, tt.text)).Attributes; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAttributesAreBounded(t *testing.T) {
	var many strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&many, `,{"name":"eth%d","mac_address":"52:54:00:01:%02x:%02x"}`, n, n>>8, n&255)
	}
	if got := Of(parsed(t, `{"inventory":{"interfaces":[`+many.String()[1:]+`]}}`)); len(got.MACs) != MaxInterfaces {
		t.Errorf("%d MACs", len(got.MACs))
	}
}
