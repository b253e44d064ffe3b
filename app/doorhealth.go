package app

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/fsm"
)

const (
	// oldPeriods is after how many periods without a new list of Ironic's ports
	// somebody should look, but never before oldLeast: ages are counted in
	// cluster time, which goes on with the entries of the log.
	oldPeriods = 3
	oldLeast   = 15 * time.Second
	// driftShown is for how long after somebody changed the rules that is worth
	// a warning; the counter keeps it.
	driftShown = time.Hour
)

// doorWarnings are what is wrong with this host's filter and address.
func (p *Peer) doorWarnings(v fsm.View) []api.Warning {
	g := p.core.gate
	if g == nil {
		return nil
	}
	var out []api.Warning
	add := func(code, remedy, format string, args ...any) {
		out = append(out, api.Warning{Code: code, Text: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	lists, _ := g.Lists.State()
	if lists.Err != nil {
		add("rules_not_programmed", "see 'firewall' in the configuration and the log of this peer; no door opens here meanwhile",
			"the PXE filter of this host is not as it should be: %v", lists.Err)
	}
	if lists.Drift > 0 && time.Since(lists.Drifted) < driftShown {
		add("drift", "find the program that changes them, for instance 'nft flush ruleset' in a boot script",
			"somebody else changed the rules of the PXE filter, %d times since this peer started, last at %s; they were rebuilt", lists.Drift, moment(lists.Drifted))
	}
	if _, listed := v.Pull(); !listed {
		add("no_port_list", "see 'ironic' in the configuration; no door opens before", "Ironic's ports were never listed completely")
	} else if old := p.tooOld(v); old > 0 {
		add("old_port_list", "see whether Ironic answers the leader; the PXE filter stays as it is meanwhile",
			"the list of Ironic's ports is %v old", old.Round(time.Second))
	}
	if mac := g.Guard.Status().ConflictMAC; mac != "" {
		add("address_conflict", "find that machine and take the address from it", "%s answers for the floating IP %s; it is not taken", mac, g.made.AddressText)
	}
	return append(out, p.bypassWarnings()...)
}

// tooOld returns the age of the list of Ironic's ports if somebody should look,
// else 0.
func (p *Peer) tooOld(v fsm.View) time.Duration {
	period := p.core.gate.made.Sync
	if age := p.listAge(v); period > 0 && age > max(oldPeriods*period, oldLeast) {
		return age
	}
	return 0
}

// bypassWarnings names the DHCP servers that no rule stops.
func (p *Peer) bypassWarnings() []api.Warning {
	if p.probe == nil {
		return nil
	}
	servers, _ := p.probe.Found() // that there was no test is in 'trivet firewall show'
	var out []api.Warning
	for _, s := range servers {
		out = append(out, api.Warning{
			Code: "dhcp_bypass",
			Text: fmt.Sprintf("DHCP server %s (%s) answers on %s what every host denies: machines boot past the PXE filter", s.Address, s.MAC, p.core.gate.made.Interface),
			Remedy: "if it runs on a peer's host it reads raw sockets, as ISC dhcpd and Kea do: use dnsmasq, or Kea with dhcp-socket-type udp. " +
				"Else take it off that network",
		})
	}
	return out
}

// filterErr says why this host's filter is not as it should be.
func (c *Core) filterErr() error {
	if c.gate == nil {
		return nil
	}
	lists, _ := c.gate.Lists.State()
	return lists.Err
}

// doorMetrics adds the figures of door, address and lists. Summed over all
// hosts, neither the door's gauge nor the address's is more than 1.
func (p *Peer) doorMetrics(r *prometheus.Registry) {
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "trivet", Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "trivet", Name: name, Help: help}, value))
	}
	guard := func() (s firewall.GuardStatus) {
		if p.core.gate != nil {
			s = p.core.gate.Guard.Status()
		}
		return s
	}
	lists := func() (s firewall.ListState) {
		if p.core.gate != nil {
			s, _ = p.core.gate.Lists.State()
		}
		return s
	}
	gauge("pass_rule_open", "1 while this host lets PXE through.", func() float64 { return one(guard().Open) })
	gauge("floating_ip_held", "1 while this host has the floating IP.", func() float64 { return one(guard().Held) })
	counter("pass_rule_swaps_total", "How often the lease of the door was opened or held.", func() float64 { return float64(guard().Swaps) })
	counter("pass_rule_lapses_total", "How often the kernel had ended the lease before it was renewed.", func() float64 { return float64(guard().Lapses) })
	gauge("firewall_in_step", "1 while the rules of this host are as they should be.", func() float64 { return one(p.core.filterErr() == nil) })
	counter("firewall_drift_total", "How often somebody else changed the rules of this host.", func() float64 { return float64(lists().Drift) })
	gauge("firewall_allowed_macs", "MACs on the whitelist of this host.", func() float64 { return float64(lists().Allow) })
	gauge("firewall_denied_macs", "MACs on the blacklist of this host.", func() float64 { return float64(lists().Deny) })
	gauge("firewall_port_list_age_seconds", "Age of the newest complete list of Ironic's ports, in cluster time; 0 before the first.", func() float64 {
		return p.listAge(p.core.Store.View()).Seconds()
	})
	gauge("firewall_bypass_servers", "DHCP servers that answer what every host denies.", func() float64 { return float64(len(p.bypassWarnings())) })
}
