package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// judgeRaw gathers who answered the self-tests of all hosts, and tells which could not be made.
func judgeRaw(hosts []Facts) []Finding {
	witnesses := make(map[Server][]string)
	var servers []Server
	for _, f := range hosts {
		for _, s := range f.DHCP.Answers {
			if witnesses[s] == nil {
				servers = append(servers, s)
			}
			witnesses[s] = append(witnesses[s], f.Peer)
		}
	}
	slices.SortStableFunc(servers, func(a, b Server) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.MAC, b.MAC))
	})
	var out []Finding
	for _, s := range servers {
		seen := strings.Join(witnesses[s], ", ")
		owner, ok := ownerOf(hosts, s)
		if !ok {
			out = append(out, Finding{Severity: Error, Peer: witnesses[s][0],
				Text: fmt.Sprintf(
					"DHCP server %s (%s), which is not one of the peers' hosts, answers a machine that every host denies; seen by %s",
					s.Address, s.MAC, seen),
				Remedy: []string{
					"# find that machine and stop its DHCP server, or take it off the network on which machines boot"}})
			continue
		}
		if l, ok := owner.link(owner.Plan.Interface); ok && l.Master != "" {
			out = append(out, newFinding(Error, owner, onMaster(l.Master),
				"its DHCP server %s (%s) answers a machine that every host denies: its PXE filter is on %s, which is a port of %s; seen by %s",
				s.Address, s.MAC, l.Name, l.Master, seen).withFault("port %s", l.Name))
			continue
		}
		remedy := []string{"# the programs that read raw sockets:", "ss -0 -l -p",
			"# if it is Kea, in kea-dhcp4.conf, Dhcp4:", `"interfaces-config": { "dhcp-socket-type": "udp" }`,
			"# ISC dhcpd cannot do without raw sockets: use dnsmasq", "systemctl disable --now isc-dhcp-server",
			"trivet dnsmasq-config --install"}
		out = append(out, newFinding(Error, owner, remedy,
			"its DHCP server %s (%s) answers a machine that every host denies, so it reads raw sockets, past the PXE filter; seen by %s",
			s.Address, s.MAC, seen))
	}
	for _, f := range hosts {
		if f.DHCP.SelfTest != "" {
			out = append(out, newFinding(Warning, f,
				[]string{"# see 'trivet firewall show', and whether firewall.interface is the right one"},
				"whether the other hosts' filters stop a denied machine cannot be tested from here: %s", f.DHCP.SelfTest))
		}
	}
	return out
}

// ownerOf finds the host that has the server's hardware address or, behind a
// bridge that has its own, its address.
func ownerOf(hosts []Facts, s Server) (Facts, bool) {
	for _, f := range hosts {
		for _, l := range f.Links {
			if l.MAC != "" && strings.EqualFold(l.MAC, s.MAC) {
				return f, true
			}
			for _, a := range l.Addresses {
				if a.Addr().String() == s.Address && s.Address != f.Plan.FloatingIP {
					return f, true
				}
			}
		}
	}
	return Facts{}, false
}
