package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// judgePorts compares how each peer reaches each other. A peer that no other reaches
// and that sends no facts is reported by the check of the peers.
func judgePorts(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		for _, r := range f.Routes {
			if r.Error == "" {
				continue
			}
			if slices.ContainsFunc(out,
				func(o Finding) bool { return o.Peer == r.To && strings.HasPrefix(o.Text, unreached(r)) }) {
				continue // said for all
			}
			out = append(out, judgeRoute(hosts, f, r)...)
		}
	}
	return out
}

// service is a port in words, as in "gossip (7351/udp)".
func (r Route) service() string {
	return fmt.Sprintf("%s (%s/%s)", r.What, r.port(), r.Protocol)
}

func (r Route) port() string {
	_, port, err := net.SplitHostPort(r.Address)
	if err != nil {
		return r.Address
	}
	return port
}

func unreached(r Route) string { return "no other peer reaches its " + r.service() }

// judgeRoute judges one route that is broken: who else reaches that port, and whether
// the other direction works.
func judgeRoute(hosts []Facts, from Facts, r Route) []Finding {
	var others, reach []string
	back, silent := "", !slices.ContainsFunc(hosts, func(h Facts) bool { return h.Peer == r.To })
	for _, h := range hosts {
		for _, o := range h.Routes {
			switch {
			case o.What != r.What || o.Protocol != r.Protocol:
			case h.Peer == r.To && o.To == from.Peer && o.Error == "":
				back = fmt.Sprintf("; %s reaches %s", r.To, from.Peer)
			case o.To == r.To && h.Peer != from.Peer:
				others = append(others, h.Peer)
				if o.Error == "" {
					reach = append(reach, h.Peer)
				}
			}
		}
	}
	there := Facts{Peer: r.To}
	remedy := []string{
		fmt.Sprintf("# on %s: is something listening, and does its firewall let %s in?", r.To, from.Peer),
		fmt.Sprintf("ss -ln%s 'sport = :%s'", r.Protocol[:1], r.port()), "nft list ruleset", "iptables-save",
	}
	switch {
	case len(reach) > 0:
		return []Finding{newFinding(Error, there, remedy,
			"%s does not reach its %s, %s does%s: a firewall here or on %s, or the network between the two: %s",
			from.Peer, r.service(), strings.Join(reach, ", "), back, from.Peer, r.Error)}
	case silent:
		return nil // its peer does not run, which is told
	case len(others) > 0:
		return []Finding{newFinding(Error, there, remedy, "%s%s: %s", unreached(r), back, r.Error)}
	}
	return []Finding{newFinding(Error, there, remedy, "%s does not reach its %s%s: a firewall here: %s", from.Peer,
		r.service(), back, r.Error)}
}
