package floatingip

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestPortsByTheirMaster: what takes the frames of its ports, and what to write then. A VRF takes none.
func TestPortsByTheirMaster(t *testing.T) {
	for kind, want := range map[string]string{
		"bridge": "eth1 is a port of m (bridge), which takes its frames; write m", "bond": "write m", "team": "write m",
		"openvswitch": "write the internal port of its bridge", "vrf": "", "hsr": "",
	} {
		err := isPort("eth1", &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: "m"}, LinkType: kind})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("port-by-master: %s: %v, want %q", kind, err, want)
		}
	}
}
