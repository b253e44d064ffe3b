package firewall

import (
	"slices"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
)

// TestMAC is denied on every host, even if Ironic had a port with it: a DISCOVER
// from it that gets an answer has found a DHCP server that no rule stops. It is a
// locally administered address.
const TestMAC = "02:74:72:69:76:74"

// Policy is what the configuration says about who may boot.
type Policy struct {
	DenyUnknown bool // drop what neither list names
	Discovery   bool // machines that Ironic does not know are enrolled
}

// PolicyOf reads the policy from the configuration.
func PolicyOf(c config.Config) Policy {
	return Policy{DenyUnknown: c.Firewall.DenyUnknownMACs, Discovery: c.Inspection.Processing.NodeNotFoundHook != ""}
}

// Desired returns the rules a host should have (HA specification, firewall
// decomposition): the blacklist, with the MAC that tests the filter, on every host, the whitelist and the pass rule
// on the leader alone. While no node is introspected and discovery is off, no
// machine has a reason to boot, and the leader has neither.
func Desired(v fsm.View, leads bool, p Policy) Ruleset {
	r := Ruleset{Deny: slices.Collect(v.DeniedMACs())}
	if at, found := slices.BinarySearch(r.Deny, TestMAC); !found {
		r.Deny = slices.Insert(r.Deny, at, TestMAC)
	}
	if leads {
		for mac := range v.AllowedMACs() {
			r.Allow = append(r.Allow, mac)
		}
		r.Pass = passes(v, p)
	}
	return r
}

// passes decides the leader's pass rule.
func passes(v fsm.View, p Policy) bool {
	return !p.DenyUnknown && (v.Introspecting() || p.Discovery)
}

// Counts is how much a ruleset lets through.
type Counts struct {
	Allow, Deny int // MACs on the lists
	Pass        bool
}

// Counts returns the sizes of the lists.
func (r Ruleset) Counts() Counts { return Counts{Allow: len(r.Allow), Deny: len(r.Deny), Pass: r.Pass} }

// Count returns the Counts of what Desired returns, without making it.
func Count(v fsm.View, leads bool, p Policy) Counts {
	c := Counts{Deny: v.DeniedCount()}
	if !v.Denied(TestMAC) {
		c.Deny++
	}
	if leads {
		c.Allow, c.Pass = v.AllowedCount(), passes(v, p)
	}
	return c
}
