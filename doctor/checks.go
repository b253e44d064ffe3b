package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Check looks for one kind of fault.
type Check struct {
	Name string
	Help string // what it finds, in a sentence

	judge func(hosts []Facts) []Finding // of hosts that said something
}

// Checks returns all checks, in the order in which people should mend things.
func Checks() []Check {
	return []Check{
		{checkPeers, "A peer that does not run or does not answer.", judgePeers},
		{checkConfig,
			"Options that have to be equal on all peers and are not, or that are of no use together: which host, and which line.",
			judgeConfig},
		{"filter",
			"The PXE filter itself: none where DHCP is served, its interface, rules of the other driver, drift, an old list of ports, a guest whose hypervisor may freeze it.",
			judgeFilter},
		{"dhcp",
			"A host on which no DHCP server would answer: nothing listens, dnsmasq is stopped, not enabled, or serves another interface; and a server that answers before the filter is there.",
			alone(judgeDHCP)},
		{"pools", "Pools of DHCP that overlap between hosts, hold an address that is taken, or lie outside their subnet.",
			judgePools},
		{"raw-dhcp", "DHCP servers that read raw sockets, which no rule of a firewall stops: machines boot past the filter.",
			judgeRaw},
		{"floating-ip",
			"A floating IP that a host cannot take, or that something else takes: its interface, the address, another machine, another program of the host.",
			judgeAddress},
		{"boot",
			"Boot loaders, script, kernel or ramdisk that cannot be fetched, and a ramdisk that would report to one host alone.",
			judgeBoot},
		{"ports",
			"Ports of peers that another peer cannot reach: the peers' port, gossip, the API; cuts in one direction with that direction.",
			judgePorts},
		{"disk", "The disk of the data directory: space, ballast, and how long it takes to have a write.", alone(judgeDisk)},
		{"clock", "Wall clocks that differ between hosts, and a clock that nothing keeps right.", alone(judgeClock)},
		{"limits",
			"Limits of the peer's unit that are too small (memory, processor, threads, open files), and paths without which it does not start.",
			alone(judgeLimits)},
		{"services",
			"Ironic, Keystone, the API servers of haconfig and the receivers of events: reached from every host, with credentials that are taken, and of one version.",
			judgeServices},
		{"inspection",
			"A configuration that waits for clients of ironic-inspector where Ironic inspects, and the reverse; a ramdisk that reports at the other's path.",
			judgeInspection},
		{"kubernetes", "Rights that failover lacks in a Kubernetes cluster, of those that 'trivet failover manifest' gives.",
			alone(judgeRights)},
		{"certificates", "Certificates that end, have ended, or were not renewed: of peers, their CA, the API.",
			alone(judgeCertificates)},
		{"versions", "Peers that run different versions, and who holds the version of the log back.", judgeBuilds},
	}
}

// alone judges each host by itself.
func alone(judge func(f Facts) []Finding) func(hosts []Facts) []Finding {
	return func(hosts []Facts) (out []Finding) {
		for _, f := range hosts {
			out = append(out, judge(f)...)
		}
		return out
	}
}

// Judge lets the checks with the given names, or all, look at the facts of all
// hosts. The worst findings come first. An unknown name is an error.
func Judge(hosts []Facts, names []string) ([]Finding, error) {
	checks := Checks()
	for _, name := range names {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			var all []string
			for _, c := range checks {
				all = append(all, c.Name)
			}
			return nil, fmt.Errorf("there is no check %q; it is one of %s", name, strings.Join(all, ", "))
		}
	}
	known := slices.DeleteFunc(slices.Clone(hosts), func(f Facts) bool { return f.Error != "" })
	var out []Finding
	for _, c := range checks {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		look := known
		if c.Name == checkPeers {
			look = hosts // those that say nothing are what it looks for
		}
		found := c.judge(look)
		for _, f := range known {
			for _, g := range f.Gaps {
				if g.Check == c.Name {
					found = append(found, Finding{Severity: Info, Peer: f.Peer, Text: "not looked at: " + g.What})
				}
			}
		}
		for i := range found {
			found[i].Check = c.Name
		}
		for _, f := range found {
			if !slices.ContainsFunc(out, f.reported) {
				out = append(out, f)
			}
		}
	}
	out = merged(out)
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return out, nil
}

// merged makes one finding of those that say the same of several hosts.
func merged(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		i := slices.IndexFunc(out, func(o Finding) bool {
			return o.Check == f.Check && o.Severity == f.Severity && o.Text == f.Text && slices.Equal(o.Remedy, f.Remedy)
		})
		if i < 0 {
			out = append(out, f)
			continue
		}
		if hosts := out[i].Hosts(); !slices.Contains(hosts, f.Peer) {
			out[i].Peers = append(slices.Clone(hosts), f.Peer)
		}
	}
	return out
}
