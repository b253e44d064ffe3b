// Package hostaddr finds which addresses of this host may be told to others, who use
// them for weeks.
package hostaddr

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// maxDumps bounds how often a list is asked for that changed while it was read.
const maxDumps = 5

// goes reports whether an address goes by itself, or is not usable now. One that was
// configured stays: before its interface has a carrier it is tentative, too, and deprecated
// where others are preferred as sources. Of IPv4 the first flag says that an address is not
// the first of its subnet.
func goes(a netlink.Addr) bool {
	gone := unix.IFA_F_TEMPORARY | unix.IFA_F_DADFAILED
	if a.Flags&unix.IFA_F_PERMANENT == 0 {
		gone |= unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE
	}
	return !isIPv4(a) && a.Flags&gone != 0
}

// Lasting returns the addresses of an interface, with their subnets, that may be told
// to others: of IPv6 none that the kernel makes up for privacy (RFC 8981) and drops
// after a week, and of one subnet a permanent address first, and then the one that lasts
// longest.
func Lasting(index int) ([]netip.Prefix, error) {
	link := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
	all, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of an interface: %w", err)
	}
	return lasting(all), nil
}

// dump asks for a list again that changed while it was read.
func dump[T any](list func() ([]T, error)) (all []T, err error) {
	for range maxDumps {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// Towards returns the address from which the kernel reaches target, a host and port. Of
// IPv6 it is none made up for privacy, if there is another (RFC 5014). No packet is sent.
func Towards(target string) (string, error) {
	dialer := net.Dialer{Control: preferPublic}
	conn, err := dialer.Dial("udp", target)
	if err != nil {
		return "", fmt.Errorf("find this host's address towards %s: %w", target, err)
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, errors.Join(err, conn.Close())
}

// Of linux/in6.h; golang.org/x/sys/unix lacks them.
const (
	ipv6AddrPreferences = 72
	ipv6PreferSrcPublic = 2
)

// preferPublic has the kernel choose an address that others know.
func preferPublic(network, _ string, conn syscall.RawConn) (err error) {
	if network != "udp6" {
		return nil
	}
	return errors.Join(conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, ipv6AddrPreferences, ipv6PreferSrcPublic)
	}), err)
}

// lasting are those that stay, IPv4 as the kernel lists them, and then IPv6 by subnet.
func lasting(all []netlink.Addr) (out []netip.Prefix) {
	all = slices.DeleteFunc(slices.Clone(all), func(a netlink.Addr) bool {
		return a.IPNet == nil || goes(a)
	})
	slices.SortStableFunc(all, func(a, b netlink.Addr) int {
		if isIPv4(a) || isIPv4(b) {
			return cmp.Compare(family(a), family(b))
		}
		return cmp.Or(bytes.Compare(a.IP.Mask(a.Mask), b.IP.Mask(b.Mask)), cmp.Compare(lifetime(b), lifetime(a)),
			bytes.Compare(a.IP, b.IP))
	})
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		if bits, _ := a.Mask.Size(); ok {
			out = append(out, netip.PrefixFrom(ip.Unmap(), bits))
		}
	}
	return out
}

func isIPv4(a netlink.Addr) bool { return a.IP.To4() != nil }

func family(a netlink.Addr) int {
	if isIPv4(a) {
		return 4
	}
	return 6
}

// lifetime is how long an address lasts, in seconds; a permanent one longest.
func lifetime(a netlink.Addr) int {
	if a.Flags&unix.IFA_F_PERMANENT != 0 {
		return 1 << 32
	}
	return a.ValidLft
}
