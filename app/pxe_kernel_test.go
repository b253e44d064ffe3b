package app

import (
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/host"
)

// TestAddressThatCannotBeGated has other hosts wait until its kernel has removed it, late
// as that may be; one that is gated costs them nothing.
func TestAddressThatCannotBeGated(t *testing.T) {
	for _, ip := range []string{"192.0.2.10", "2001:db8::10"} {
		conf := config.Config{FloatingIP: config.FloatingIP{Address: ip, Interface: "site"}}
		address, err := floatingip.New(conf.FloatingIP)
		if err != nil {
			t.Fatal(err)
		}
		p := pxeParts{filter: host.Filter{Driver: host.Noop}, address: address}
		if g := p.gate(conf, nil); g.AddressSlack != firewall.LateAddress || g.AddressLease != nil {
			t.Errorf("late-address: %s without a gate: others wait for %v more, lease %v", ip, g.AddressSlack, g.AddressLease)
		}
		p.shows = new(host.AddressGate)
		if g := p.gate(conf, nil); g.AddressSlack != 0 || g.AddressLease == nil {
			t.Errorf("late-address: %s with a gate: others wait for %v more, lease %v", ip, g.AddressSlack, g.AddressLease)
		}
	}
}
