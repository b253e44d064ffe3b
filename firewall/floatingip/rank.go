package floatingip

import (
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// rank is where the address goes among those of its interface.
type rank struct {
	scope     int
	misplaced *netlink.Addr // it is there, but not so
}

// rank puts an IPv4 address behind the host's own ones of the interface, since programs take the first for the
// host's: dnsmasq names itself by it to machines, which then ask the next leader's host for what this one gave, and
// the kernel sends from it. The kernel puts an address of a greater scope before the others, and one of the same scope
// behind them: so it gets the least scope that is there. Alone it gets that of the host, which is no source;
// neighbours are answered nevertheless, unless arp_ignore is 3. One of the host's own that is added later, or again,
// as NetworkManager and networkd do it, is behind the address until the next Put.
//
// IPv6 has its newest address first, of whichever life. The kernel sends from none that is deprecated while there is
// another, and dnsmasq takes no /128 for its own.
func (a *Address) rank(k *kernel, index int) (rank, error) {
	if a.ip.Is6() {
		return rank{}, nil
	}
	all, err := k.addresses(false)
	if err != nil {
		return rank{}, err
	}
	r := rank{scope: unix.RT_SCOPE_HOST}
	var present *netlink.Addr
	early := false // it is before one of the host's own
	for i, e := range all {
		switch {
		case e.LinkIndex != index:
		case isOf(e, a.ip):
			present = &all[i]
		case !ends(e) && e.Flags&unix.IFA_F_SECONDARY == 0: // one that ends is another cluster's, and goes behind, too
			r.scope = min(r.scope, e.Scope)
			early = present != nil
		}
	}
	if present != nil && (early || present.Scope != r.scope) {
		r.misplaced = present
	}
	return r, nil
}
