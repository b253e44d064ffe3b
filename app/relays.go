package app

import (
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/iptables"
)

// relaysOf says what this host does with requests that DHCP relays pass on: the
// table that holds a lease in nf_tables drops them, whatever keeps the lists.
func relaysOf(c config.Firewall, lease firewall.Lease) firewall.Relays {
	if l, remade := lease.(*remadeFilter); remade {
		lease = l.inner().lease
	}
	if m, ok := lease.(misplaced); ok {
		lease = m.Lease
	}
	if _, old := lease.(*iptables.RecentLease); old {
		return firewall.RelaysUnseen
	}
	if firewall.Match(c.Match) == firewall.MatchChaddr {
		return firewall.RelaysMatched
	}
	return firewall.RelaysDropped
}
