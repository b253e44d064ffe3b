package identify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// The UUID is the machine's, however its interfaces are listed, and no two
// machines have the same.
func TestDiscoveredIdentity(t *testing.T) {
	nic := func(macs ...string) string {
		var all []string
		for i, mac := range macs {
			all = append(all, fmt.Sprintf(`{"name":"eth%d","mac_address":%q}`, i, mac))
		}
		return `{"inventory":{"interfaces":[` + strings.Join(all, ",") + `]%s}}`
	}
	of := func(format, more string) string {
		found, err := newSite(t).search().InIronic(t.Context(), Of(parsed(t, fmt.Sprintf(format, more))))
		if err != nil {
			t.Fatal(err)
		}
		a := found.New(nil)
		if a.Verdict == Refused {
			return a.Text
		}
		if err := (introspection.Start{Node: a.Node, Event: introspection.EventEnroll, Timeout: time.Second,
			Attributes: a.Attributes}).Validate(); err != nil {
			t.Errorf("the log does not take %s, %v: %v", a.Node, a.Attributes, err)
		}
		return a.Node
	}
	one := of(nic(mac1, mac2), "")
	for _, same := range []string{of(nic(mac2, mac1), ""),
		of(nic(noMAC, strings.ToUpper(mac1), "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", mac2),
			`,"bmc_address":"198.18.0.1"`)} {
		if same != one {
			t.Errorf("one machine is %s and %s", one, same)
		}
	}
	if grouped := of(nic("0b:00:00:00:00:01", "03:00:00:00:00:01", mac1, mac2), ""); grouped != one {
		t.Errorf("groups' MACs make %s of %s", grouped, one)
	}
	bmc := of(nic(noMAC), `,"bmc_address":"198.18.0.1"`)
	for _, other := range []string{of(nic(mac1), ""), of(nic("52:54:00:00:00:0b", "52:54:00:00:0a"), ""), bmc} {
		if other == one {
			t.Errorf("two machines are %s", other)
		}
	}
	if got := of(nic(noMAC), `,"bmc_address":"0.0.0.0"`); !strings.Contains(got, "no MAC and no BMC address") {
		t.Error(got)
	}
	var many []string
	for i := range 129 {
		many = append(many, fmt.Sprintf("52:54:00:00:01:%02x", i))
	}
	if got := of(nic(many...), ""); !strings.Contains(got, "more than 128") {
		t.Error(got)
	}
}
