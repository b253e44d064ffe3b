package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

func judgeAddress(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		for _, problem := range FloatingProblems(f.Plan, f.Links) {
			problem.Peer = f.Peer
			out = append(out, problem)
		}
		out = append(out, f.stray()...)
		if f.Address.Conflict != "" {
			out = append(out, found(Error, f, []string{"# find that machine and take the address from it:", "ip neigh show | grep -i " + f.Address.Conflict},
				"%s answers for the floating IP %s", f.Address.Conflict, f.Plan.FloatingIP))
		}
		if f.Plan.FloatingIP != hosts[0].Plan.FloatingIP {
			out = append(out, found(Error, f, []string{"# write the same floating_ip.address on every host"},
				"its floating_ip.address is %q, that of %s %q", f.Plan.FloatingIP, hosts[0].Peer, hosts[0].Plan.FloatingIP))
		}
	}
	return out
}

// stray finds the address on a host whose peer does not hold it.
func (f Facts) stray() []Finding {
	a, err := netip.ParseAddr(f.Plan.FloatingIP)
	if err != nil || f.Offline || f.Address.Held || len(f.Address.Present) == 0 || len(f.ownAddress(a)) > 0 {
		return nil
	}
	who := "something else put it there"
	if f.Address.VRRP {
		who = "VRRP is spoken on this host: keepalived, or another like it, put it there"
	}
	return []Finding{found(Error, f, []string{
		"# stop what put it there (keepalived, pacemaker, a network configuration), then:",
		fmt.Sprintf("ip addr del %v/%d dev %s", a, a.BitLen(), f.Address.Present[0]),
	}, "this host has the floating IP %v on %s, and its peer does not hold it: %s", a, strings.Join(f.Address.Present, ", "), who)}
}
