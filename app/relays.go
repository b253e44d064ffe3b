package app

import (
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
)

// relaysOf says what this host does with requests that DHCP relays pass on: the
// table that holds the lease drops them, whatever keeps the lists.
func relaysOf(c config.Firewall) firewall.Relays {
	if firewall.Match(c.Match) == firewall.MatchChaddr {
		return firewall.RelaysMatched
	}
	return firewall.RelaysDropped
}
