package pxe

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/doctor"
)

// TestPoolsLeaveHostsOut: no machine is given the address of a peer's host, also where peers reach each
// other on another network, or by a name.
func TestPoolsLeaveHostsOut(t *testing.T) {
	s := newKeptSite(t, "h1", "h2", "h3")
	s.at = map[string]string{"h1": "10.0.0.1:7350", "h2": "10.0.0.2:7350", "h3": "10.0.0.3:7350"}
	link := doctor.Link{Name: "br-pxe", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.140/24")}}
	s.hosts = []doctor.Facts{{Peer: "h3", Error: "it does not answer"},
		{Peer: "h2", Plan: doctor.Plan{Interface: "br-pxe"}, Links: []doctor.Link{link}}}
	told := s.run("--address", here)
	if !strings.Contains(told, ",192.0.2.128,192.0.2.139,") || !strings.Contains(told, ",192.0.2.141,192.0.2.169,") {
		t.Errorf("pools-leave-hosts-out: of a host on another network:\n%s", told)
	}
	if !strings.Contains(told, "warning: the host of h3 does not say") {
		t.Errorf("silent-host-is-told:\n%s", told)
	}
	s.at = map[string]string{"h1": "127.0.0.200:7350", "h2": "localhost:7350", "h3": "127.0.0.202:7350"}
	told = s.run("--address", "127.0.0.200/24", "--reserve", "1")
	if !strings.Contains(told, ",127.0.0.2,127.0.0.84,") || strings.Contains(told, "does not say") {
		t.Errorf("pools-leave-hosts-out: of a name:\n%s", told)
	}
}
