package pxe

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/doctor"
)

// namesLimit bounds the look-up of the names of all members.
const namesLimit = 2 * time.Second

// hostsOf returns addresses of the members' hosts: those by which peers know each other and, where one
// of these is not in each subnet in which machines boot, what the hosts say. Silent are the members
// that have not said it.
func hostsOf(ctx context.Context, peer term.Peer, own string, members []admin.Member, subnets []netip.Prefix) (
	known []netip.Addr, silent []string) {
	limited, cancel := context.WithTimeout(ctx, namesLimit)
	defer cancel()
	for _, m := range members {
		at := addressesOf(limited, m.Address)
		known = append(known, at...)
		elsewhere := func(s netip.Prefix) bool { return !slices.ContainsFunc(at, s.Contains) }
		if m.Name != own && slices.ContainsFunc(subnets, elsewhere) {
			silent = append(silent, m.Name)
		}
	}
	if len(silent) == 0 {
		return known, nil
	}
	var hosts []doctor.Facts
	if err := peer.Call(ctx, "GET", term.OnAll("/v1/doctor", true), nil, &hosts); err != nil {
		return known, silent
	}
	for _, h := range hosts {
		if link, ok := doctor.BootLink(h); ok && h.Error == "" {
			for _, a := range link.Addresses {
				known = append(known, a.Addr())
			}
			silent = slices.DeleteFunc(silent, func(name string) bool { return name == h.Peer })
		}
	}
	return known, silent
}

// addressesOf are those of a host and port; none of a name without one at the moment.
func addressesOf(ctx context.Context, text string) []netip.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return []netip.Addr{at.Addr()}
	}
	name, _, err := net.SplitHostPort(text)
	if err != nil {
		return nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	for i, a := range found {
		found[i] = a.Unmap()
	}
	return found
}
