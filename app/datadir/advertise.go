package datadir

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/hostaddr"
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

// network is what a host knows of addresses.
type network struct {
	// has reports whether one is of this host now.
	has func(ip net.IP) (bool, error)
	// addresses lists the global ones of either version that stay, but for those of some interfaces.
	addresses func(except []string) (v4, v6 []string, err error)
	// inward names the bridges behind which are machines of this host alone.
	inward func() ([]string, error)
	// source is the one from which a target is reached.
	source func(target string) (string, error)
	// lookup returns the addresses of a name.
	lookup func(ctx context.Context, name string) ([]net.IPAddr, error)
}

func kernel() network {
	return network{onThisHost, globalAddresses, hostaddr.InwardBridges, hostaddr.Towards, net.DefaultResolver.LookupIPAddr}
}

// onlyAddress returns this host's one usable address. Where there are several, or where
// a target is reached by the other version of IP, it is the one from which target is
// reached, if there is a target; else those of docker0 and its like do not count, nor, of
// several, those of the interface on which machines boot, unless there are no others.
func (h Host) onlyAddress(on network, target string) (string, error) {
	v4, v6, err := on.addresses(nil)
	if err != nil {
		return "", err
	}
	found := usable(v4, v6)
	if target != "" {
		source, err := on.source(target)
		if len(found) > 1 || err == nil && slices.Contains(slices.Concat(found, v6), source) {
			return source, err
		}
	}
	boots := h.Config.Firewall.Interface
	except, err := on.inward()
	if err != nil {
		return "", err
	}
	except = slices.DeleteFunc(except, func(bridge string) bool { // machines elsewhere boot there, or call there
		return bridge == boots || bridge == h.Config.FloatingIP.Interface
	})
	if found, err = on.elsewhere(except, found); err != nil {
		return "", err
	}
	if len(found) > 1 {
		if found, err = on.elsewhere(append(except, boots), found); err != nil {
			return "", err
		}
	}
	if len(found) != 1 {
		return "", &AddressError{Found: found}
	}
	return found[0], nil
}

// elsewhere returns the usable addresses of all interfaces but some, found if there are none.
func (on network) elsewhere(except, found []string) ([]string, error) {
	v4, v6, err := on.addresses(except)
	if err != nil {
		return nil, err
	}
	if others := usable(v4, v6); len(others) > 0 {
		return others, nil
	}
	return found, nil
}

// AddressNow returns the address of a host that had one, which stays while the host has it. Else
// it is the host's only one, if the kernel reaches from there where the old one was, as its
// members are: a host whose network is not up yet has docker0's address alone, and has not moved.
func (h Host) AddressNow(was string) (string, error) { return h.addressNow(kernel(), was) }

func (h Host) addressNow(on network, was string) (string, error) {
	ip := net.ParseIP(was)
	if ip == nil { // it is a name
		return was, nil
	}
	if kept, err := on.has(ip); kept || err != nil {
		return was, err
	}
	now, err := h.onlyAddress(on, "")
	if err != nil {
		return "", err
	}
	const discard = "9" // nothing is sent there
	source, err := on.source(net.JoinHostPort(was, discard))
	if err == nil && source != now {
		err = fmt.Errorf("it is reached from %s", source)
	}
	if err != nil {
		return "", fmt.Errorf("%s is not on this host, and %s has not taken its place: %w", was, now, err)
	}
	return now, nil
}

// usable are a host's IPv4 addresses, or its IPv6 ones if it has no IPv4.
func usable(v4, v6 []string) []string {
	if len(v4) == 0 {
		return v6
	}
	return v4
}

// onThisHost reports whether this host has an address, if only for a while.
func onThisHost(ip net.IP) (bool, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("list this host's addresses: %w", err)
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	}), nil
}

// globalAddresses lists this host's global addresses, but for those of some interfaces, and
// none that the kernel drops by itself.
func globalAddresses(except []string) (v4, v6 []string, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("list this host's interfaces: %w", err)
	}
	for _, i := range interfaces {
		if slices.Contains(except, i.Name) {
			continue
		}
		found, err := hostaddr.Lasting(i.Index)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		for _, a := range found {
			switch ip := a.Addr(); {
			case !ip.IsGlobalUnicast():
			case ip.Is4():
				v4 = append(v4, ip.String())
			default:
				v6 = append(v6, ip.String())
			}
		}
	}
	slices.Sort(v4)
	slices.Sort(v6)
	return slices.Compact(v4), slices.Compact(v6), nil
}
