package pxe

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
)

// Pool is a run of addresses that one DHCP server gives away, first and last
// included.
type Pool struct{ First, Last netip.Addr }

// String is FIRST-LAST, as ParsePool reads it.
func (p Pool) String() string { return p.First.String() + "-" + p.Last.String() }

// ParsePool reads FIRST-LAST.
func ParsePool(text string) (Pool, error) {
	first, last, _ := strings.Cut(text, "-")
	a, errA := netip.ParseAddr(strings.TrimSpace(first))
	b, errB := netip.ParseAddr(strings.TrimSpace(last))
	switch {
	case errA != nil || errB != nil || a.Zone() != "" || b.Zone() != "":
		return Pool{}, fmt.Errorf("%q is no pool; write FIRST-LAST, as in 192.0.2.128-192.0.2.169", text)
	case a.Is4() != b.Is4() || b.Less(a):
		return Pool{}, fmt.Errorf("%q is no pool; the last address must not be before the first", text)
	}
	return Pool{a, b}, nil
}

// Within reports whether the whole pool is in a subnet.
func (p Pool) Within(subnet netip.Prefix) bool {
	return subnet.Contains(p.First) && subnet.Contains(p.Last)
}

// Size is how many addresses are in it, at most 65536, which is enough for any
// use here.
func (p Pool) Size() int {
	const most = 1 << 16
	n := new(big.Int).Sub(number(p.Last), number(p.First))
	if !n.IsInt64() || n.Int64() >= most {
		return most
	}
	return int(n.Int64()) + 1
}

// Bounds of a share.
const (
	leastShare = 8       // addresses; fewer cannot boot a rack
	window6    = 1 << 12 // addresses of one share of an IPv6 subnet
	hostBits6  = 16      // the bits of an IPv6 address that tell shares apart
	mostParts6 = 1<<(hostBits6-12) - 1
)

// Cut says which part of a subnet is one peer's. Peers with the same Parts and
// Reserve get pools that never overlap.
type Cut struct {
	Part, Parts int // Part counts from 0
	// Reserve is how many addresses at the start of an IPv4 subnet DHCP leaves to
	// hosts; 0 is half of the subnet.
	Reserve int
	Keep    []netip.Addr // in use by hosts: left out of the pools
}

// Share returns the pools of one peer in a subnet.
//
// The rest of an IPv4 subnet behind Reserve is cut into equal parts. Of an IPv6
// subnet each part is 4096 addresses: those that end in 1000 to 1fff for the
// first, 2000 to 2fff for the second, and so on.
//
// The pools are disjoint because a lease outlives the leadership of the host
// that granted it: dnsmasq on the next leader's host does not know it, and grants
// only addresses that no other host ever granted.
func (c Cut) Share(subnet netip.Prefix) ([]Pool, error) {
	part, parts := c.Part, c.Parts
	subnet = subnet.Masked()
	if part < 0 || part >= parts || c.Reserve < 0 {
		return nil, fmt.Errorf("there is no part %d of %d behind the first %d addresses", part+1, parts, c.Reserve)
	}
	first, each := int64(part+1)*window6, int64(window6)
	switch {
	case subnet.Addr().Is4():
		size := int64(1) << (32 - subnet.Bits())
		from := cmp.Or(int64(c.Reserve), size/2)
		each = (size - 1 - from) / int64(parts) // the last address is the broadcast
		if each < leastShare {
			return nil, fmt.Errorf(
				"%v is too small to be shared by %d peers: behind the first %d addresses, which are left to hosts, it has fewer than %d for each",
				subnet, parts, from, leastShare)
		}
		first = from + int64(part)*each
	case subnet.Bits() > 128-hostBits6:
		return nil, fmt.Errorf("%v is too small to be shared: a prefix of at most %d bits is needed", subnet, 128-hostBits6)
	case parts > mostParts6:
		return nil, fmt.Errorf("%v cannot be shared by %d peers, at most %d", subnet, parts, mostParts6)
	}
	return without(Pool{at(subnet, first), at(subnet, first+each-1)}, c.Keep), nil
}

// without takes single addresses out of a pool.
func without(whole Pool, keep []netip.Addr) []Pool {
	keep = slices.Clone(keep)
	slices.SortFunc(keep, netip.Addr.Compare)
	var pools []Pool
	rest := whole
	for _, a := range slices.Compact(keep) {
		if a.Is4() != rest.First.Is4() || a.Less(rest.First) || rest.Last.Less(a) {
			continue
		}
		if rest.First.Less(a) {
			pools = append(pools, Pool{rest.First, a.Prev()})
		}
		if a == rest.Last {
			return pools
		}
		rest.First = a.Next()
	}
	return append(pools, rest)
}

// at is the subnet's address with an offset from its first.
func at(subnet netip.Prefix, offset int64) netip.Addr {
	sum := new(big.Int).Add(number(subnet.Addr()), big.NewInt(offset))
	raw := make([]byte, subnet.Addr().BitLen()/8)
	a, _ := netip.AddrFromSlice(sum.FillBytes(raw)) // of a length that fits
	return a
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// errNoPool says that a server would give away nothing.
var errNoPool = errors.New("no address is left for machines")
