package health

import (
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/firewall/probe"
	"github.com/trivet-ha/trivet/fsm"
)

const (
	// oldPeriods is after how many periods without a new list of Ironic's ports an
	// operator should look, but never before oldLeast: ages are counted in
	// cluster time, which goes on with the entries of the log.
	oldPeriods = 3
	oldLeast   = 15 * time.Second
	// driftShown is for how long a change of the rules by another program is worth
	// a warning; the counter keeps it.
	driftShown = time.Hour
)

// doorHealth is what the warnings of this host's filter and address are made of.
type doorHealth struct {
	lists    firewall.ListState
	guard    firewall.GuardStatus
	listed   bool          // Ironic's ports, completely, at least once
	listing  error         // why they could not be listed last; known on the leader alone
	unread   error         // why it is not known of each node whether Ironic inspects it; on the leader alone
	age      time.Duration // of that list
	period   time.Duration // firewall.sync_period
	address  string
	pxe      string         // the interface on which machines boot
	bypasses []probe.Server // no rule stops them
}

// warnings are what is wrong with this host's filter and address.
func (d *Door) warnings(v fsm.View) []api.Warning {
	if d.Guard == nil {
		return nil
	}
	h := doorHealth{
		guard: d.Guard.Status(), age: d.listAge(v), period: d.Config().Firewall.SyncPeriod,
		address: d.Address, pxe: d.Config().Firewall.Interface, bypasses: d.bypasses(), listing: d.Pull.Err(),
		unread: d.Follow.Err(),
	}
	h.lists, _ = d.Lists.State()
	_, h.listed = v.Pull()
	return h.warnings()
}

// oldList reports whether an operator should see why the list of Ironic's ports is so old.
func oldList(age, period time.Duration) bool {
	return period > 0 && age > max(oldPeriods*period, oldLeast)
}

// overdue is the age by which alerts judge the list of Ironic's ports. One that is made once a
// leadership is as old as it is to be.
func overdue(age, period time.Duration) time.Duration {
	if period == 0 {
		return 0
	}
	return age
}

func (h doorHealth) warnings() []api.Warning {
	var out warningList
	if h.lists.Err != nil {
		out.add("rules_not_programmed",
			"see 'firewall' in the configuration and the log of this peer; no door opens here meanwhile",
			"the PXE filter of this host is not as it should be: %v", h.lists.Err)
	}
	if h.lists.Drift > 0 && time.Since(h.lists.Drifted) < driftShown {
		out.add("drift", "find the program that changes them, for instance 'nft flush ruleset' in a boot script",
			"another program changed the rules of the PXE filter, at %s (%d since this peer started); they were rebuilt, closed, and until then this host may have answered every machine",
			api.TimeText(h.lists.Drifted), h.lists.Drift)
	}
	because := ""
	if h.listing != nil {
		because = fmt.Sprintf(": %v", h.listing)
	}
	switch {
	case !h.listed:
		out.add("no_port_list", "see 'ironic' in the configuration; the PXE service of no host opens before",
			"Ironic's ports were never listed completely%s", because)
	case oldList(h.age, h.period):
		out.add("old_port_list", "see whether Ironic answers the leader; the PXE filter stays as it is meanwhile",
			"the list of Ironic's ports is %v old%s", h.age.Round(time.Second), because)
	}
	if h.unread != nil {
		out.add("inspections_unread",
			"see whether Ironic answers the leader for that node; machines that could not be read stay let in, or kept out",
			"which machines Ironic inspects cannot be read of all nodes: %v", h.unread)
	}
	switch {
	case h.guard.ConflictMAC != "" && h.guard.Held:
		out.add("address_conflict", "find that machine and take the address from it",
			"%s claims the floating IP %s, which this host has; neighbours follow the last announcement, and this host announces it again every 10 s",
			h.guard.ConflictMAC, h.address)
	case h.guard.ConflictMAC != "":
		out.add("address_conflict", "find that machine and take the address from it",
			"%s answers for the floating IP %s; it is not taken", h.guard.ConflictMAC, h.address)
	}
	for _, s := range h.bypasses {
		out.add("dhcp_bypass",
			"'trivet doctor --check raw-dhcp' says whose it is: on a peer's host firewall.interface is not where packets arrive, or it reads raw sockets, as ISC dhcpd and Kea do (use dnsmasq, or Kea with dhcp-socket-type udp); else take it off that network",
			"DHCP server %s (%s) answers on %s what every host denies: machines boot past the PXE filter", s.Address, s.MAC,
			h.pxe)
	}
	return out
}

// bypasses are the DHCP servers that no rule stops. That there was no test is
// in 'trivet firewall show'.
func (d *Door) bypasses() []probe.Server {
	servers, _ := d.probed()
	return servers
}

// err says why this host's filter is not as it should be.
func (d *Door) err() error { return d.listState().Err }

func (d *Door) listState() (s firewall.ListState) {
	if d.Guard != nil {
		s, _ = d.Lists.State()
	}
	return s
}

// register adds the figures of door, address and lists. Summed over all
// hosts, neither the door's gauge nor the address's is more than 1.
func (d *Door) register(f *Figures) {
	guard := func() (s firewall.GuardStatus) {
		if d.Guard != nil {
			s = d.Guard.Status()
		}
		return s
	}
	f.Flag("firewall_configured", "1 where the configuration has this host filter what boots.",
		func() bool { return d.Driver != host.Noop })
	f.Flag("floating_ip_configured", "1 where the configuration names a floating IP.",
		func() bool { return d.Address != "" })
	f.Flag("floating_ip_conflict",
		"1 while another machine answers for the floating IP, whether this host has it or does not take it for that.",
		func() bool { return guard().ConflictMAC != "" })
	f.Flag("pass_rule_open", "1 while this host lets PXE through.", func() bool { return guard().Open })
	f.Flag("floating_ip_held", "1 while this host has the floating IP.",
		func() bool { return guard().Held })
	f.Counter("pass_rule_swaps_total", "How often the lease of the door was opened or held.",
		func() float64 { return float64(guard().Swaps) })
	f.Counter("pass_rule_lapses_total", "How often the kernel had ended the lease before it was renewed.",
		func() float64 { return float64(guard().Lapses) })
	f.Flag("firewall_in_step", "1 while the rules of this host are as they should be.",
		func() bool { return d.err() == nil })
	f.Counter("firewall_drift_total", "How often another program changed the rules of this host.",
		func() float64 { return float64(d.listState().Drift) })
	f.Gauge("firewall_allowed_macs", "MACs on the whitelist of this host.",
		func() float64 { return float64(d.listState().Allow) })
	f.Gauge("firewall_denied_macs", "MACs on the blacklist of this host.",
		func() float64 { return float64(d.listState().Deny) })
	f.Gauge("firewall_port_list_age_seconds",
		"Age of the newest complete list of Ironic's ports, in cluster time; 0 before the first, and where firewall.sync_period is 0.",
		func() float64 {
			return overdue(d.listAge(d.Members.Log.View()), d.Config().Firewall.SyncPeriod).Seconds()
		})
	f.Gauge("firewall_bypass_servers", "DHCP servers that answer what every host denies.",
		func() float64 { return float64(len(d.bypasses())) })
}
