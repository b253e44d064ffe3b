package app

import (
	"fmt"
	"net"

	"github.com/trivet-ha/trivet/config"
)

// advertised returns the address the other peers dial: what was written, or
// the host part of listen, or this host's only usable address.
func advertised(key string, a config.Address) (string, error) {
	if a.Advertise != "" {
		return a.Advertise, nil
	}
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return "", fmt.Errorf("%s.listen: %w", key, err)
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return a.Listen, nil
	}
	found, err := usableAddresses()
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s.advertise is not written, and this host has %d usable addresses %v: write the one that the other peers dial", key, len(found), found)
	}
	return net.JoinHostPort(found[0], port), nil
}

// usableAddresses lists this host's global IPv4 addresses, or its IPv6 ones if
// it has no IPv4.
func usableAddresses() ([]string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this host's addresses: %w", err)
	}
	var v4, v6 []string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			v4 = append(v4, n.IP.String())
		} else {
			v6 = append(v6, n.IP.String())
		}
	}
	if len(v4) > 0 {
		return v4, nil
	}
	return v6, nil
}
