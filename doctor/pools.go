package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

// judgePools compares what dnsmasq gives away on the network on which machines
// boot, or to relays. What it does elsewhere is no business of ours.
func judgePools(hosts []Facts) []Finding {
	var out []Finding
	for i, f := range hosts {
		for _, r := range f.pools() {
			for _, other := range hosts[:i] {
				out = append(out, overlaps(other, f, r)...)
			}
			out = append(out, f.taken(r, hosts)...)
			out = append(out, f.outside(r)...)
		}
		out = append(out, f.poolsTwice()...)
	}
	return out
}

// pools are the ranges that the host gives away, where machines boot or behind
// relays.
func (f Facts) pools() []dnsmasq.Range {
	own, _ := BootLink(f)
	var out []dnsmasq.Range
	for _, r := range f.DHCP.Conf.Ranges {
		if !r.Gives() {
			continue
		}
		if r.Constructor == "" {
			if !f.elsewhere(r) {
				out = append(out, r)
			}
			continue
		}
		for _, subnet := range own.Subnets() {
			if r.Constructor == own.Name && subnet.Addr().Is6() {
				out = append(out, r.On(subnet))
			}
		}
	}
	return out
}

// elsewhere reports whether a range belongs to another interface of the host.
func (f Facts) elsewhere(r dnsmasq.Range) bool {
	own, _ := BootLink(f)
	return !own.near(r.First) && slices.ContainsFunc(f.Links, func(l Link) bool { return l.near(r.First) })
}

func span(r dnsmasq.Range) string { return fmt.Sprintf("%v-%v (%v)", r.First, r.Last, r.Place) }

func overlaps(a, b Facts, r dnsmasq.Range) []Finding {
	apart := []string{
		fmt.Sprintf("# give each host addresses of its own in %v; on every host, with the same --peers and --reserve:",
			r.Place),
		"trivet dnsmasq-config --install",
	}
	var out []Finding
	for _, o := range a.pools() {
		if r.Overlaps(o) {
			out = append(out, newFinding(Error, b, apart,
				"its pool %s overlaps that of %s, %s: two machines get the same address", span(r), a.Peer, span(o)))
		}
	}
	return out
}

// poolsTwice finds ranges of one host that overlap.
func (f Facts) poolsTwice() []Finding {
	var out []Finding
	pools := f.pools()
	for i, r := range pools {
		for _, o := range pools[:i] {
			if r.Overlaps(o) && (r.First != o.First || r.Last != o.Last) { // one line for each tag is usual
				out = append(out, newFinding(Warning, f,
					[]string{fmt.Sprintf("# remove one of the two, %v or %v", o.Place, r.Place)}, "its pools %s and %s overlap",
					span(o), span(r)))
			}
		}
	}
	return out
}

// taken finds addresses in a pool that belong to a host or the floating IP. Those of other
// hosts are of their interfaces on which machines boot.
func (f Facts) taken(r dnsmasq.Range, hosts []Facts) []Finding {
	var out []Finding
	say := func(whose string, a netip.Addr, more ...string) {
		remedy := fmt.Sprintf("# let the range in %v end before %v or begin behind it", r.Place, a)
		out = append(out, newFinding(Error, f, append([]string{remedy}, more...), "its pool %s holds %v, which is %s",
			span(r), a, whose))
	}
	if a, err := netip.ParseAddr(f.Plan.FloatingIP); err == nil && r.Contains(a) {
		say("the floating IP", a)
	}
	of := func(l Link, whose string, more ...string) {
		for _, p := range l.Addresses {
			if r.Contains(p.Addr()) && p.Addr().String() != f.Plan.FloatingIP {
				say(whose+" on "+l.Name, p.Addr(), more...)
			}
		}
	}
	for _, l := range f.Links {
		of(l, "this host's own")
	}
	for _, other := range hosts {
		if l, ok := BootLink(other); ok && other.Peer != f.Peer {
			of(l, "that of "+other.Peer,
				"# or without --pool, while the peer on "+other.Peer+" runs: trivet dnsmasq-config --install")
		}
	}
	return out
}

// outside finds a pool that leaves its subnet, and one that no subnet of this
// host has and no netmask explains: a relay's must say its netmask.
func (f Facts) outside(r dnsmasq.Range) []Finding {
	within := false
	for _, l := range f.Links {
		for _, s := range l.Subnets() {
			switch {
			case s.Contains(r.First) && s.Contains(r.Last):
				within = true
			case s.Contains(r.First) || s.Contains(r.Last):
				return []Finding{newFinding(Error, f, []string{fmt.Sprintf("# keep the range in %v within %v", r.Place, s)},
					"its pool %s leaves the subnet %v of %s", span(r), s, l.Name)}
			}
		}
	}
	own, ok := BootLink(f)
	if within || !ok || len(own.Subnets()) == 0 || r.Constructor != "" || r.First.Is4() && r.Bits > 0 {
		return nil // an interface that is missing is told by the check of the filter
	}
	return []Finding{newFinding(Warning, f, []string{
		fmt.Sprintf(
			"# give an interface of this host an address in that subnet, or correct %v; for machines behind a relay write its netmask",
			r.Place),
	}, "its pool %s is in no subnet of this host: dnsmasq gives nothing of it away", span(r))}
}
