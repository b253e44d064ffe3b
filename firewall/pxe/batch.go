package pxe

import (
	"net/netip"
	"time"
)

// The lease times that LeaseFor chooses from.
//
// A lease must outlast the download of kernel and ramdisk, because iPXE does not
// renew it and dnsmasq grants the address to another machine when it ends: 200
// machines that fetch 400 MB each from one host at 1 Gbit/s need 11 minutes. It
// should outlast an introspection, because after a change of leader the host
// that granted it no longer hears its renewal: the ramdisk then asks the new
// leader for another address when the lease ends.
const (
	ShortLease = 15 * time.Minute
	UsualLease = 30 * time.Minute
)

// DefaultBatch is the number of machines that boot at about the same time for
// which pools are judged: "a couple of hundred" in the specification of
// ironic-inspector's high availability.
const DefaultBatch = 200

// LeaseFor chooses the lease time for batches of so many machines from a pool of
// so many addresses, and reports whether the pool holds one batch. A pool of two
// batches can still hold the addresses of the one before; in a smaller one they
// must end earlier.
func LeaseFor(addresses, batch int) (lease time.Duration, fits bool) {
	if addresses >= 2*batch {
		return UsualLease, true
	}
	return ShortLease, addresses >= batch
}

// count returns the numbers of addresses in the pools, by family.
func (s Server) count() (four, six int) {
	for _, p := range s.Pools {
		if p.First.Is4() {
			four += p.Size()
		} else {
			six += p.Size()
		}
	}
	return four, six
}

// Capacity is how many machines can have an address at once: the smaller number
// of both families, if the pools are of both.
func (s Server) Capacity() int {
	four, six := s.count()
	if four == 0 || six > 0 && six < four {
		return six
	}
	return four
}

// Fitting returns the length of the longest IPv4 prefix whose upper half gives
// each of so many peers a pool of a size; 0 if none does.
func Fitting(size, parts int) (bits int) {
	for bits = 30; bits > 0; bits-- {
		if half := int64(1) << (31 - bits); (half-1)/int64(parts) >= int64(size) {
			return bits
		}
	}
	return 0
}

// ReserveFor returns how many addresses an IPv4 subnet may leave to hosts and
// still give each of so many peers a pool of a size; 0 if it cannot, or leaves
// fewer than 16.
func ReserveFor(subnet netip.Prefix, size, parts int) int {
	const least = 16
	if rest := int64(1)<<(32-subnet.Bits()) - 1 - int64(size)*int64(parts); rest >= least {
		return int(rest)
	}
	return 0
}
