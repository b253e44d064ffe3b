package app

import (
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/iptables"
	"github.com/trivet-ha/trivet/firewall/nftables"
)

func TestWhatAHostMakesOfRelays(t *testing.T) {
	for name, c := range map[string]struct {
		match string
		lease firewall.Lease
		want  firewall.Relays
	}{
		"by the frame":              {"ether", &nftables.Lease{}, firewall.RelaysDropped},
		"by the client":             {"chaddr", &nftables.Lease{}, firewall.RelaysMatched},
		"on a kernel without":       {"ether", &iptables.RecentLease{}, firewall.RelaysUnseen},
		"on a host without a door":  {"ether", broken{}, firewall.RelaysDropped},
		"lists of somebody beneath": {"chaddr", &iptables.RecentLease{}, firewall.RelaysUnseen},
	} {
		if got := relaysOf(config.Firewall{Match: c.match}, c.lease); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
