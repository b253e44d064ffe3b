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
		out = append(out, f.strayAddress()...)
		if f.Address.Conflict != "" {
			out = append(out, newFinding(Error, f,
				[]string{"# find that machine and take the address from it:", "ip neigh show | grep -i " + f.Address.Conflict},
				"%s answers for the floating IP %s", f.Address.Conflict, f.Plan.FloatingIP))
		}
		out = append(out, unansweredServices(f, hosts[0])...)
		if f.Plan.FloatingIP != hosts[0].Plan.FloatingIP {
			out = append(out, newFinding(Error, f, []string{"# write the same floating_ip.address on every host"},
				"its floating_ip.address is %q, that of %s %q", f.Plan.FloatingIP, hosts[0].Peer, hosts[0].Plan.FloatingIP))
		}
	}
	return out
}

// UnansweredRemedy says what to do about a service that does not answer at the floating IP.
func UnansweredRemedy() []string {
	return []string{
		`write ":PORT" without an address as api.listen and haconfig.listen on every host ('trivet config check' names the line), have the certificate name the floating IP, let the port through`,
		"then 'systemctl restart trivet', one host after the other",
	}
}

// unansweredServices finds services that do not answer where clients call them, and an API whose port
// moves with the address.
func unansweredServices(f, first Facts) []Finding {
	var out []Finding
	var remedy []string
	for _, line := range UnansweredRemedy() {
		remedy = append(remedy, "# "+line)
	}
	for _, s := range f.Address.Served {
		if s.Error != "" {
			out = append(out, newFinding(Error, f, append([]string{"trivet config check", "curl -kv " + s.URL}, remedy...),
				"%s does not answer at the floating IP %s: %s", s.What, f.Plan.FloatingIP, s.Error))
		}
	}
	if f.Plan.FloatingIP != "" && f.Plan.APIPort != first.Plan.APIPort {
		out = append(out, newFinding(Error, f,
			[]string{"# write the same port in api.listen on every host, then:", "systemctl restart trivet"},
			"its API has port %d, that of %s %d: at the floating IP the port changes with the leader", f.Plan.APIPort,
			first.Peer, first.Plan.APIPort))
	}
	if f.Plan.RamdiskPort != first.Plan.RamdiskPort {
		out = append(out, newFinding(Warning, f,
			[]string{"# write the same port in api.ramdisk_listen on every host, then:", "systemctl restart trivet"},
			"ramdisks have port %d there, on %s %d (0: none): the boot script names one port for all hosts",
			f.Plan.RamdiskPort, first.Peer, first.Plan.RamdiskPort))
	}
	return out
}

// strayAddress finds the address on a host whose peer does not hold it.
func (f Facts) strayAddress() []Finding {
	a, err := netip.ParseAddr(f.Plan.FloatingIP)
	if err != nil || f.Offline || f.Address.Held || len(f.Address.Present) == 0 || len(f.ownAddress(a)) > 0 {
		return nil
	}
	who := "something else put it there"
	if f.Address.VRRP {
		who = "VRRP is spoken on this host: keepalived, or another like it, put it there"
	}
	return []Finding{newFinding(Error, f, []string{
		"# stop what put it there (keepalived, pacemaker, a network configuration), then:",
		fmt.Sprintf("ip addr del %v/%d dev %s", a, a.BitLen(), f.Address.Present[0]),
	}, "this host has the floating IP %v on %s, and its peer does not hold it: %s", a,
		strings.Join(f.Address.Present, ", "), who)}
}
