package admission

import (
	"crypto/sha256"
	"net/netip"
)

// RemoteSource is SourceOf for an address with its port, as net/http has it. All whose
// address cannot be read are one source.
func RemoteSource(address string) netip.Prefix {
	pair, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	return SourceOf(pair.Addr())
}

// SourceOf returns who shares with whom: an IPv4 address, or a /64, which is what one
// machine has of IPv6. The zero Prefix stands for callers without an address, those
// of a unix socket.
func SourceOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	network, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // a is the zero Addr: the bits fit every other one
	}
	return network
}

// Named is the source of a caller who has proved a name: it has one share, wherever it
// calls from. No network has as many bits.
func Named(name string) netip.Prefix {
	sum := sha256.Sum256([]byte(name))
	return netip.PrefixFrom(netip.AddrFrom16([16]byte(sum[:16])), 128)
}
