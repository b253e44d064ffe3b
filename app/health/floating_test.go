package health

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
)

// What keeps this host from taking the floating IP is a warning of status, with
// its remedy.
func TestFloatingWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		conf config.FloatingIP
		want string // "": no warning
	}{
		"none":         {config.FloatingIP{}, ""},
		"no interface": {config.FloatingIP{Address: "192.0.2.10", Interface: "br-none"}, "has no interface br-none"},
		"outside": {config.FloatingIP{Address: "192.0.2.10", Interface: "lo"},
			"192.0.2.10 is in no subnet of lo (127.0.0.0/8)"},
		"the host's own": {config.FloatingIP{Address: "127.0.0.1", Interface: "lo"},
			"127.0.0.1 is this host's own address on lo (127.0.0.1/8)"},
		"an address to be had": {config.FloatingIP{Address: "127.9.9.9", Interface: "lo"}, ""},
	} {
		got := floatingWarnings(FloatingProblems(config.Config{FloatingIP: c.conf}))
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Code != "floating_ip" || !strings.Contains(got[0].Text, c.want) || got[0].Remedy == "" ||
			strings.ContainsAny(got[0].Remedy, "#\n") || strings.Contains(got[0].Remedy, ":;") {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

// An address of no single host is refused where the interface is this host's, and nowhere else.
func TestAddressThatNoHostMayHave(t *testing.T) {
	for _, c := range []struct {
		conf config.FloatingIP
		want string
	}{
		{config.FloatingIP{Address: "192.0.2.255", Interface: "eth0"},
			"192.0.2.255 is the broadcast address of 192.0.2.0/24"},
		{config.FloatingIP{Address: "192.0.2.255", Interface: "eth1"}, ""},
		{config.FloatingIP{Address: "192.0.2.10", Interface: "eth0"}, ""},
	} {
		links := []doctor.Link{{Name: "eth0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}}
		got := unusableAddress(config.Config{FloatingIP: c.conf}, netip.MustParseAddr(c.conf.Address), links)
		if c.want == "" && len(got) > 0 ||
			c.want != "" && (len(got) != 1 || got[0].Key != "floating_ip.address" || !strings.HasPrefix(got[0].What, c.want)) {
			t.Errorf("%+v: %v, want %q", c.conf, got, c.want)
		}
	}
}
