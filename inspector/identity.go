package inspector

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
)

// noMAC is what interfaces have that have none.
const noMAC = "00:00:00:00:00:00"

// OwnMAC reports whether a MAC, in lower case, can be one interface's own:
// that of loopback interfaces and those of groups are not.
func OwnMAC(mac string) bool {
	const digits = "0123456789abcdef"
	return mac != noMAC && strings.IndexByte(digits, mac[1])%2 == 0 // the last bit of the first byte says that it is a group's
}

// ownMACs leaves out MACs that cannot be one machine's own.
func ownMACs(macs []string) []string {
	return slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return !OwnMAC(mac) })
}

// contradicts reports whether a machine with attributes a, which shares a MAC
// with the machine known by the others, is another one. Network cards of BMCs
// have one MAC in all machines of a kind, so that such a MAC alone would take
// every machine for the first. It is another one if its BMC has another address
// and the machine lacks one of the known MACs. Either alone proves nothing:
// Ironic may reach a BMC by a translated or an outdated address, and cards are
// replaced.
func contradicts(a, known fsm.Attributes) bool {
	return otherBMC(a.BMC, known.BMC) && lacks(a.MACs, known.MACs)
}

// lacks reports whether one of the known MACs is not among macs.
func lacks(macs, known []string) bool {
	return slices.ContainsFunc(known, func(mac string) bool { return !slices.Contains(macs, mac) })
}

// otherBMC reports whether two BMCs have addresses of one version of IP, and none
// in common. A link-local address says nothing: a BMC has others besides.
func otherBMC(one, other []string) bool {
	comparable := false
	for _, a := range one {
		for _, b := range other {
			if a == b {
				return false
			}
			comparable = comparable || routed(a, b)
		}
	}
	return comparable
}

// routed reports whether two addresses are of one version and not link-local.
func routed(a, b string) bool {
	one, err := netip.ParseAddr(a)
	two, err2 := netip.ParseAddr(b)
	return err == nil && err2 == nil && one.Is4() == two.Is4() && !one.IsLinkLocalUnicast() && !two.IsLinkLocalUnicast()
}
