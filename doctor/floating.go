package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// FloatingProblems are what is wrong with floating_ip.address and
// floating_ip.interface on a host with these links: the interface is missing, down or
// a port of another one, the address is the host's own, the kernel would not answer for it
// (arp_ignore), or it is outside the interface's subnets. None if there is no floating IP. The address as Trivet puts
// it there, with the mask of a single host, is no problem: which peer should hold it is for others to judge.
func FloatingProblems(plan Plan, links []Link) []Finding {
	a, err := netip.ParseAddr(plan.FloatingIP)
	if err != nil {
		return nil // none, or refused by the configuration
	}
	a = a.Unmap()
	f := Facts{Plan: plan, Links: links}
	own := f.ownAddress(a)
	l, ok := f.link(plan.FloatingInterface)
	switch {
	case !ok:
		return append(own, newFinding(Error, f,
			[]string{"ip -brief link", "# write the right one as floating_ip.interface in trivet.yaml, then:",
				"systemctl restart trivet"},
			"floating_ip.interface: this host has no interface %s: it cannot take the floating IP %v", plan.FloatingInterface,
			a).withFault("no link %s", plan.FloatingInterface))
	case !l.Up:
		return append(own, newFinding(Error, f,
			[]string{"ip link set " + l.Name + " up", "# and in this host's network configuration, for the next boot"},
			"floating_ip.interface: %s is down: this host cannot take the floating IP %v", l.Name, a).withFault("down %s",
			l.Name))
	}
	if write := f.carrier(l, a); write != "" {
		return append(own, newFinding(Error, f,
			[]string{"ip -details link show " + l.Name,
				"# write " + write + " as floating_ip.interface in trivet.yaml, then:", "systemctl restart trivet"},
			"floating_ip.interface: %s is a port of %s, which takes its frames: this host cannot take the floating IP %v, since it would not hear another machine that has it",
			l.Name, l.Master, a))
	}
	if what := l.Reserved(a); what != "" {
		own = append(own, newFinding(Error, f,
			[]string{"# write an address of that subnet as floating_ip.address that no host has, the same on every host"},
			"floating_ip.address: %v is %s (%s): its neighbours do not send packets to it as to a host", a, what, l.Name))
	}
	return slices.Concat(own, f.unanswered(l, a), f.outsideSubnets(l, a))
}

// datapath is the master of the ports of Open vSwitch, of all its bridges.
const datapath = "ovs-system"

// carrier is the interface to write in the place of a port of a bridge, bond or team: the master in whose subnet
// the address is. A link in a VRF has its subnet itself. "": l is no port, as far as its addresses tell.
func (f Facts) carrier(l Link, a netip.Addr) string {
	for range f.Links { // no more masters are on top of each other
		if l.Master == datapath {
			return "the internal port of its Open vSwitch bridge, which mostly has the bridge's name,"
		}
		master, ok := f.link(l.Master)
		if !ok {
			return ""
		}
		if master.near(a) {
			return master.Name
		}
		l = master
	}
	return ""
}

// unanswered finds a link on which the kernel answers no ARP for the address as
// Trivet puts it there, with the mask of a single host. With 2 it answers neighbours
// of the link's subnet, if the address is in it, too; with 3 all, if the address has
// not the scope of the host, as it has where no other is on the link.
func (f Facts) unanswered(l Link, a netip.Addr) []Finding {
	if !a.Is4() || !slices.Contains([]int{2, 3, 8}, l.ARPIgnore) {
		return nil
	}
	other := func(p netip.Prefix) bool { return p.Addr().Is4() && p.Addr() != a }
	if l.ARPIgnore == 3 && slices.ContainsFunc(l.Addresses, other) {
		return nil
	}
	remedy := []string{
		fmt.Sprintf("sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.%s.arp_ignore=1",
			strings.ReplaceAll(l.Name, ".", "/")),
		"# and in a file of /etc/sysctl.d, for the next boot; 0 will do, too",
	}
	if l.ARPIgnore == 2 && l.near(a) {
		return []Finding{newFinding(Warning, f, remedy,
			"arp_ignore is 2 on %s: this host answers for the floating IP %v only neighbours with an address in the same subnet",
			l.Name, a)}
	}
	return []Finding{newFinding(Error, f, remedy,
		"arp_ignore is %d on %s: this host would not answer for the floating IP %v when it has it", l.ARPIgnore, l.Name,
		a).withFault("arp_ignore %s", l.Name)}
}

// near reports whether the address is in a subnet of the link.
func (l Link) near(a netip.Addr) bool {
	return slices.ContainsFunc(l.Subnets(), func(s netip.Prefix) bool { return s.Contains(a) })
}

// ownAddress finds the floating IP configured as the host's own.
func (f Facts) ownAddress(a netip.Addr) []Finding {
	for _, l := range f.Links {
		i := slices.IndexFunc(l.Addresses, func(p netip.Prefix) bool { return p.Addr() == a && !p.IsSingleIP() })
		if i < 0 {
			continue
		}
		return []Finding{newFinding(Error, f, []string{
			"# write an address as floating_ip.address that no host has, the same on every host; or take it from this host, here and in its network configuration:",
			fmt.Sprintf("ip addr del %v dev %s", l.Addresses[i], l.Name),
		}, "floating_ip.address: %v is this host's own address on %s (%v): two hosts have it when another leads", a, l.Name,
			l.Addresses[i])}
	}
	return nil
}

// outsideSubnets finds an address that machines on the interface reach by no
// route of their own.
func (f Facts) outsideSubnets(l Link, a netip.Addr) []Finding {
	var same []string // subnets of the address's family
	for _, s := range l.Subnets() {
		if s.Contains(a) {
			return nil
		}
		if s.Addr().Is4() == a.Is4() {
			same = append(same, s.String())
		}
	}
	has := "none of its family"
	if len(same) > 0 {
		has = strings.Join(same, ", ")
	}
	if l.Master != "" {
		has += "; it is a port of " + l.Master
	}
	return []Finding{newFinding(Warning, f, []string{
		"ip -brief address show " + l.Name,
		"# write an address of one of these subnets as floating_ip.address, or another floating_ip.interface; it is right as it is where a router sends the address here",
	}, "floating_ip.address: %v is in no subnet of %s (%s): machines there reach it only through a router", a, l.Name,
		has)}
}
