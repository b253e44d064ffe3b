package datadir

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"
)

// namesLimit bounds the look-up of names before gossip starts.
const namesLimit = 2 * time.Second

// GossipAddress returns the IP address and port that this peer has in gossip, which carries no names,
// where told is what the other members know it by, and seeds are where their gossip is. With an error
// the name has no address at the moment, and it is one that others may reach all the same, or loopback.
func (h Host) GossipAddress(ctx context.Context, told string, seeds []string) (string, error) {
	return h.gossipAddress(ctx, kernel(), told, seeds)
}

func (h Host) gossipAddress(ctx context.Context, on network, told string, seeds []string) (string, error) {
	host, port, err := net.SplitHostPort(told)
	if err != nil || net.ParseIP(host) != nil {
		return told, nil
	}
	ctx, cancel := context.WithTimeout(ctx, namesLimit)
	defer cancel()
	found, err := on.lookup(ctx, host)
	if err != nil {
		err = fmt.Errorf("look up this peer's name in gossip: %w", err)
	}
	ip := h.ownOf(on, found)
	if ip == nil {
		ip = on.towards(ctx, seeds)
	}
	if ip == nil {
		only, _ := h.onlyAddress(on, "") // of several none is better than the next
		ip = net.ParseIP(only)
	}
	if ip == nil {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(ip.String(), port), err
}

// ownOf returns the one of a name's addresses at which others reach the gossip of this host: that at which it
// listens, else one that the host has, else any; never loopback, which a host's own name may have, unless it
// listens there. Nil if there is none.
func (h Host) ownOf(on network, found []net.IPAddr) net.IP {
	listen, _, _ := net.SplitHostPort(h.Config.Gossip.Listen) // the configuration was checked
	bound := net.ParseIP(listen)
	for _, fits := range []func(net.IP) bool{
		func(ip net.IP) bool { return ip.Equal(bound) },
		func(ip net.IP) bool { has, err := on.has(ip); return err == nil && has && !ip.IsLoopback() },
		func(ip net.IP) bool { return !ip.IsLoopback() },
	} {
		if i := slices.IndexFunc(found, func(a net.IPAddr) bool { return fits(a.IP) }); i >= 0 {
			return found[i].IP
		}
	}
	if bound.IsUnspecified() {
		return nil
	}
	return bound
}

// towards returns the address from which the first of the seeds is reached that has a name or address
// to which this host has a route; nil if there is none.
func (on network) towards(ctx context.Context, seeds []string) net.IP {
	for _, seed := range seeds {
		host, port, err := net.SplitHostPort(seed)
		if err != nil {
			continue
		}
		found := []net.IPAddr{{IP: net.ParseIP(host)}}
		if found[0].IP == nil {
			found, _ = on.lookup(ctx, host) // the next may have an address
		}
		for _, a := range found {
			source, err := on.source(net.JoinHostPort(a.String(), port))
			if ip := net.ParseIP(source); err == nil && ip != nil && !ip.IsLoopback() {
				return ip
			}
		}
	}
	return nil
}
