package host

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

// need is one of doctor's, with how its packets come.
type need struct {
	doctor.Need
	cast string  // unicast, broadcast or multicast
	from []Other // hosts whose packets must get through; none: every host
}

// needs are what this host must let in: DHCP and TFTP where machines boot, the
// API and ramdisks where the floating IP is, and the other peers.
func (g *gathering) needs() []need {
	c := g.o.Config
	var out []need
	add := func(what, protocol string, port uint16, iface string, six bool, cast string, from []Other) {
		out = append(out, need{doctor.Need{What: what, Protocol: protocol, Port: port, Interface: iface, Six: six}, cast,
			from})
	}
	if pxe := c.Firewall.Interface; c.Firewall.Driver != "noop" && g.has(pxe) {
		conf := g.facts.DHCP.Conf
		add("DHCP", "udp", portDHCP, pxe, false, "broadcast", nil)
		add("TFTP", "udp", 69, pxe, false, "unicast", nil)
		if conf.Service { // else dnsmasq keeps it closed
			add("PXE boot server", "udp", 4011, pxe, false, "unicast", nil)
		}
		if slices.ContainsFunc(conf.Ranges, func(r dnsmasq.Range) bool { return r.First.Is6() && r.Gives() }) {
			add("DHCPv6", "udp", portDHCP6, pxe, true, "multicast", nil)
			add("TFTP", "udp", 69, pxe, true, "unicast", nil)
		}
	}
	called := []struct{ what, listen string }{{"the API", c.API.Listen}}
	if key, listen := c.API.Ramdisks(); key != "api.listen" {
		called = append(called, struct{ what, listen string }{"ramdisks", listen})
	}
	for _, at := range called {
		host, port, ok := hostPort(at.listen)
		if !ok || loopback(host) {
			continue
		}
		iface := cmp.Or(c.FloatingIP.Interface, c.Firewall.Interface)
		floating, err := netip.ParseAddr(c.FloatingIP.Address)
		if g.has(iface) {
			add(at.what, "tcp", port, iface, err == nil && floating.Is6(), "unicast", nil)
		}
	}
	for _, p := range []struct{ what, protocol, address string }{
		{"peers", "tcp", g.o.Cluster}, {"gossip", "tcp", g.o.Gossip}, {"gossip", "udp", g.o.Gossip},
	} {
		host, port, ok := hostPort(p.address)
		own, err := netip.ParseAddr(host)
		if !ok || err != nil || own.IsLoopback() {
			continue
		}
		// An address that is translated on the way is on no interface: by which packets come is not known.
		if names := Holding(g.facts.Links, own.String()); len(names) > 0 {
			add(p.what, p.protocol, port, names[0], own.Is6(), "unicast", g.reachable(own.Is6()))
		}
	}
	return out
}

func (g *gathering) has(name string) bool {
	return slices.ContainsFunc(g.facts.Links, func(l doctor.Link) bool { return l.Name == name })
}

// reachable are the other peers of one version of IP.
func (g *gathering) reachable(six bool) []Other {
	var out []Other
	for _, o := range g.o.Others {
		if o.Address.IsValid() && o.Address.Is6() == six {
			out = append(out, o)
		}
	}
	return out
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
