package doctor

import (
	"net/netip"
	"strings"
	"testing"
)

// TestARPThatIsNotAnswered goes through the values of the sysctl: the kernel
// answers for an address of a single host, of the host's scope, with some of them.
func TestARPThatIsNotAnswered(t *testing.T) {
	for address, answered := range map[string]map[int]bool{
		"192.0.2.10":   {0: true, 1: true, 2: false, 3: false, 4: true, 5: true, 6: true, 7: true, 8: false},
		"2001:db8::10": {0: true, 2: true, 3: true, 8: true},
	} {
		subnets := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}
		for value, want := range answered {
			found := FloatingProblems(Plan{FloatingIP: address, FloatingInterface: "eth0.5"}, []Link{{Name: "eth0.5", Up: true, ARPIgnore: value, Addresses: subnets}})
			if got := len(found) == 0; got != want {
				t.Errorf("arp_ignore %d for %s: %+v", value, address, found)
			} else if !want && !strings.Contains(found[0].Remedy[0], "net.ipv4.conf.eth0/5.arp_ignore=1") {
				t.Errorf("arp_ignore %d: the remedy is %q", value, found[0].Remedy)
			}
		}
	}
}
