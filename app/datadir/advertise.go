package datadir

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/trivet-ha/trivet/config"
)

// AddressError says that this host has no address, or several, that the other
// peers might dial, and that none was written.
type AddressError struct {
	Found []string // in text; none or several
}

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("cluster.advertise is not written, and this host has %d usable addresses %v", len(e.Found), e.Found)
}

// Advertised returns the address the other peers dial: what was written, or
// the host part of listen, or what find says.
func Advertised(key string, a config.Address, find func() (string, error)) (string, error) {
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
	found, err := find()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(found, port), nil
}

// CheckAddress reports whether Init knows what address to tell the others. An
// *AddressError says that one must be written.
func (h Host) CheckAddress() error {
	_, err := h.self("", "", 0, "")
	return err
}

// OnlyAddress returns this host's one usable address. Where there are several
// it is the one from which target is reached, if there is a target; else those
// of the interface on which machines boot do not count, unless there are no
// others.
func (h Host) OnlyAddress(target string) (string, error) {
	found, err := UsableAddresses("")
	if err != nil {
		return "", err
	}
	if len(found) > 1 && target != "" {
		return sourceFor(target)
	}
	if len(found) > 1 {
		elsewhere, err := UsableAddresses(h.Config.Firewall.Interface)
		if err != nil {
			return "", err
		}
		if len(elsewhere) > 0 {
			found = elsewhere
		}
	}
	if len(found) != 1 {
		return "", &AddressError{Found: found}
	}
	return found[0], nil
}

// sourceFor is the address from which the kernel would reach target. No packet
// is sent.
func sourceFor(target string) (string, error) {
	conn, err := net.Dial("udp", target)
	if err != nil {
		return "", fmt.Errorf("find this host's address towards %s: %w", target, err)
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, errors.Join(err, conn.Close())
}

// UsableAddresses lists this host's global IPv4 addresses, or its IPv6 ones if
// it has no IPv4, but for those of one interface.
func UsableAddresses(except string) ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list this host's interfaces: %w", err)
	}
	var v4, v6 []string
	for _, i := range interfaces {
		if i.Name == except {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			switch {
			case !ok || !n.IP.IsGlobalUnicast():
			case n.IP.To4() != nil:
				v4 = append(v4, n.IP.String())
			default:
				v6 = append(v6, n.IP.String())
			}
		}
	}
	if len(v4) == 0 {
		v4 = v6
	}
	slices.Sort(v4)
	return slices.Compact(v4), nil
}
