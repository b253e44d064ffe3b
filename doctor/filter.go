package doctor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"
)

// noop is the driver that filters nothing.
const noop = "noop"

func judgeFilter(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		out = append(out, f.unfiltered(hosts)...)
		out = append(out, f.unread()...)
		out = append(out, f.leftovers()...)
		out = append(out, freezes(f)...)
		if f.Plan.Driver != noop {
			out = append(out, f.interfaces()...)
		}
		if f.Plan.Driver != noop && !f.Offline {
			out = append(out, f.programmed()...)
		}
		out = append(out, f.differs(hosts[0])...)
	}
	return out
}

// unfiltered finds a DHCP server that answers every machine: where Ironic manages how
// machines boot, that may be meant.
func (f Facts) unfiltered(hosts []Facts) []Finding {
	if f.Plan.Driver != noop || !f.DHCP.Listening {
		return nil
	}
	severity, at := Warning, "whichever host leads"
	if slices.ContainsFunc(hosts, func(h Facts) bool { return h.Peer != f.Peer && h.DHCP.Listening }) {
		severity, at = Error, "at the same time as those of the other hosts"
	}
	return []Finding{newFinding(severity, f,
		[]string{"# not where Ironic manages the boot, and this server is Ironic's: it is right as it is (docs/migrate.md#managed-boot)",
			"# in trivet.yaml:", "firewall: {driver: auto, interface: " + f.Plan.Interface + "}", "systemctl restart trivet"},
		"a DHCP server listens on this host and firewall.driver is noop: it answers every machine, %s", at)}
}

// unread finds a dnsmasq that does not look at the files of driver dnsmasq.
func (f Facts) unread() []Finding {
	conf := f.DHCP.Conf
	if f.Plan.Driver != "dnsmasq" || len(conf.Files) == 0 || slices.Contains(conf.HostsDirs, path.Clean(f.Plan.HostsDir)) {
		return nil
	}
	return []Finding{newFinding(Error, f,
		[]string{"# in " + conf.Files[len(conf.Files)-1] + ":", "dhcp-hostsdir=" + f.Plan.HostsDir,
			"systemctl restart dnsmasq"},
		"firewall.driver is dnsmasq, and dnsmasq is not configured to read %s: it answers every machine while this host leads",
		f.Plan.HostsDir)}
}

// leftovers finds rules of a driver that is not in use.
func (f Facts) leftovers() []Finding {
	var out []Finding
	if f.Filter.NftTable && f.Plan.Driver == noop {
		out = append(out, newFinding(Warning, f, []string{"nft delete table inet trivet_pxe"},
			"rules of driver nftables are in the kernel and firewall.driver is noop: they keep every machine out"))
	}
	if len(f.Filter.AddressTables) > 0 && f.Plan.FloatingIP == "" {
		var remedy []string
		for _, table := range f.Filter.AddressTables {
			remedy = append(remedy, "nft delete table "+table)
		}
		out = append(out, newFinding(Warning, f, remedy,
			"rules that gate a floating IP are in the kernel and floating_ip is not configured: where another program carries the address, this host may be silent"))
	}
	if f.Filter.IptablesChains && (f.Filter.Driver == "nftables" || f.Plan.Driver == noop) {
		out = append(out, newFinding(Warning, f,
			[]string{"# it removes them when it starts with driver nftables and finds iptables:", "systemctl restart trivet"},
			"rules of driver iptables are in the kernel and the driver is %s: a drop in either wins, so the door stays shut",
			cmp.Or(f.Filter.Driver, f.Plan.Driver)))
	}
	if f.Filter.LegacyRules && f.Filter.NftRules {
		out = append(out, newFinding(Warning, f,
			[]string{"iptables-legacy-save", "iptables-nft-save", "# move the rules of one to the other, then:",
				"update-alternatives --config iptables"},
			"this host has rules of iptables-legacy and of iptables-nft: a packet has to pass both, and neither tool lists the other's"))
	}
	return out
}

// freezes finds a guest of a hypervisor for whose pauses no new leader waits.
func freezes(f Facts) []Finding {
	if f.Clock.Hypervisor == "" || f.Plan.FreezeMS > 0 || f.Plan.Driver == noop && f.Plan.FloatingIP == "" {
		return nil
	}
	return []Finding{newFinding(Info, f,
		[]string{"# if the hypervisor may pause a host, in trivet.yaml on each of them, for as long as it may, 5s at most:",
			"firewall: {freeze: 1s}", "systemctl restart trivet"},
		"this host is a guest of %s, and firewall.freeze is 0s: the clocks of a guest that is frozen stand still, so that a leader which was frozen may let PXE through next to the new one when it goes on, for less than two leases",
		f.Clock.Hypervisor)}
}

func (f Facts) interfaces() []Finding {
	l, ok := f.link(f.Plan.Interface)
	switch {
	case !ok:
		return []Finding{newFinding(Error, f, []string{"ip -brief link", "# then write the right one as firewall.interface"},
			"this host has no interface %s, on which machines should boot", f.Plan.Interface).withFault("no link %s",
			f.Plan.Interface)}
	case !l.Up:
		return []Finding{newFinding(Error, f, []string{"ip link set " + l.Name + " up"},
			"interface %s, on which machines boot, is down", l.Name).withFault("down %s", l.Name)}
	case l.Master != "":
		return []Finding{newFinding(Error, f, onMaster(l.Master),
			"interface %s, on which machines boot, is a port of %s: the PXE filter does not see what arrives there", l.Name,
			l.Master).withFault("port %s", l.Name)}
	}
	return nil
}

// onMaster is what to do where the configured interface is a port of another one.
func onMaster(master string) []string {
	return []string{"ip -details link show master " + master, "# in trivet.yaml:", "firewall: {interface: " + master + "}",
		"# in dnsmasq's configuration:", "interface=" + master,
		"systemctl restart trivet dnsmasq"}
}

// programmed finds what keeps the rules from being right.
func (f Facts) programmed() []Finding {
	var out []Finding
	if f.Filter.Problem != "" {
		out = append(out, newFinding(Error, f, []string{"journalctl -u trivet", "trivet firewall show"},
			"the PXE filter is not as it should be, so no door opens here: %s", f.Filter.Problem))
	}
	if f.Filter.Drift > 0 {
		out = append(out, newFinding(Warning, f,
			[]string{"# find the program that changes them; the log names it if the kernel tells:",
				"journalctl -u trivet | grep -i filter"},
			"another program changed the rules of the PXE filter, %d times since this peer started; they were rebuilt, closed, and until then this host may have answered every machine",
			f.Filter.Drift))
	}
	// A peer that could make no filter at its start calls its driver auto ever after.
	byIptables := f.Filter.Driver == "iptables" || f.Filter.Driver == "auto" && f.Filter.IptablesChains
	if f.Filter.MACs > manyMACs && byIptables {
		out = append(out, newFinding(Warning, f, []string{"# in trivet.yaml on each host, one after the other:",
			"firewall: {driver: nftables}", "systemctl restart trivet"},
			"%d MACs are on the lists, and iptables compares each packet with one after the other", f.Filter.MACs))
	}
	if f.Filter.Lapsed >= fewLapses && f.Filter.Lapsed >= f.Filter.Renewed/lapseShare {
		remedy := []string{"# relieve this host, or hand leadership to another one:", "trivet transfer"}
		if time.Duration(f.Filter.LeaseMS)*time.Millisecond < longLease {
			remedy = append(remedy, "# if all hosts are like this one, in trivet.yaml on each of them:",
				fmt.Sprintf("firewall: {lease: %v}", longLease), "raft: {timing: slow}", "systemctl restart trivet")
		}
		out = append(out, newFinding(Warning, f, remedy,
			"the kernel ended the lease of its PXE service %d times before it was renewed, next to %d renewals: machines had short gaps",
			f.Filter.Lapsed, f.Filter.Renewed))
	}
	age := time.Duration(f.Filter.AgeMS) * time.Millisecond
	switch {
	case !f.Filter.Listed:
		out = append(out, newFinding(Error, f, []string{"trivet status", "# see 'ironic' in the configuration"},
			"Ironic's ports were never listed completely: no door opens before"))
	case f.Filter.Old:
		out = append(out, newFinding(Warning, f, []string{"# see whether Ironic answers the leader:", "trivet status"},
			"the list of Ironic's ports is %v old: a machine that is new or gone since is filtered as before",
			age.Round(time.Second)))
	}
	return out
}

// manyMACs is from when on a rule for each MAC costs more than a host should give: a batch of
// starts takes seconds (docs/pxe.md#drivers).
const manyMACs = 2000

// A lease that ends too soon this often is too short for its host. The first few may be
// the start of a host that is busy; of an hour's renewals with the default, the share
// leaves three.
const (
	fewLapses  = 3
	lapseShare = 10_000
)

// longLease is firewall.lease for hosts or networks for which the default is too short.
const longLease = time.Second

// differs tells what is not the same as on the first host; it may be meant so.
func (f Facts) differs(first Facts) []Finding {
	var out []Finding
	for _, v := range []struct{ what, here, there string }{
		{"driver", f.Filter.Driver, first.Filter.Driver},
		{"firewall.match", f.Plan.Match, first.Plan.Match},
		{"firewall.interface", f.Plan.Interface, first.Plan.Interface},
	} {
		if v.here != v.there && v.here != "" && v.there != "" {
			out = append(out, newFinding(Info, f, nil, "its %s is %s, that of %s %s", v.what, v.here, first.Peer, v.there))
		}
	}
	return out
}
