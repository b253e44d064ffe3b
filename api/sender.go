package api

import (
	"net/http"
	"net/netip"
	"slices"
)

// senderOf returns the address from which a request was sent, as far as it can
// be known, and the one that connected; both are the zero Addr where there is
// none (a unix socket). They differ behind a proxy: X-Forwarded-For counts only
// from proxies that were named, because a sender that may name itself has as
// many names as it likes; and of its entries the last, which that proxy wrote.
func senderOf(r *http.Request, proxies []netip.Prefix) (sender, connected netip.Addr) {
	connected = parseAddress(r.RemoteAddr)
	if !connected.IsValid() || !within(proxies, connected) {
		return connected, connected
	}
	if told := parseAddress(lastHop(r.Header, "X-Forwarded-For")); told.IsValid() {
		return told, connected
	}
	return connected, connected
}

// parseAddress reads an address with or without a port; the zero Addr is none.
func parseAddress(text string) netip.Addr {
	address, err := netip.ParseAddr(text)
	if err != nil {
		pair, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}
		}
		address = pair.Addr()
	}
	return address.Unmap().WithZone("")
}

func within(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address) })
}
