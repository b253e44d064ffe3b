package floatingip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/config"
)

var (
	// ErrForeign says that this host has the address in a form that trivet never
	// writes, so that it belongs to another program and stays.
	ErrForeign = errors.New("another program configured the floating IP on this host")
	// ErrNotHeld says that there is nothing to announce.
	ErrNotHeld = errors.New("this host does not have the floating IP")
)

// maxValid bounds the life of an address: the longer it lives, the longer a
// host that died keeps it.
const maxValid = 10 * time.Second

// Address is the floating IP, as one host carries it. It never changes, so any
// goroutine may call it; that at most one host holds the address is for the
// one who calls Put to know.
type Address struct {
	ip    netip.Addr
	iface string
}

// New returns the address of conf. It asks nothing of the kernel: an interface
// that does not exist yet may do so when it is needed.
func New(conf config.FloatingIP) (*Address, error) {
	ip, err := config.FloatingAddress(conf.Address)
	if err != nil {
		return nil,
			fmt.Errorf(
				"floating_ip.address: %w; write a unicast address that is not link-local, without a mask, as in 192.0.2.10", err)
	}
	if conf.Interface == "" || len(conf.Interface) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("floating_ip.interface: %.80q cannot be a network interface; write 1 to %d characters",
			conf.Interface, unix.IFNAMSIZ-1)
	}
	return &Address{ip: ip, iface: conf.Interface}, nil
}

// IP is the address itself.
func (a *Address) IP() netip.Addr { return a.ip }

// Put gives this host the address, or the address another life, for valid from
// now: whole seconds, since the kernel counts no others, and at most ten. The
// kernel removes it up to 0.9 s late (measured), never early.
//
// Nothing is written once ctx has ended or its deadline has passed. A process
// that is stopped right behind this last look writes when it goes on, so the
// caller looks at the clock again, and calls Remove if it was too late.
//
// An address that is this host's own stays as it is: the error is ErrForeign.
func (a *Address) Put(ctx context.Context, valid time.Duration) error {
	if valid < time.Second || valid > maxValid || valid%time.Second != 0 {
		return fmt.Errorf("floating address for %v: the kernel counts whole seconds, and here from 1 to %d", valid,
			maxValid/time.Second)
	}
	return a.withStation(ctx, func(k *kernel, at station) error {
		if err := a.own(k); err != nil {
			return err
		}
		place, err := a.rank(k, at.index)
		if err != nil {
			return err
		}
		if err := ended(ctx); err != nil {
			return err
		}
		if place.misplaced != nil { // the kernel moves no entry, and changes no scope
			if err := a.remove(k, *place.misplaced); err != nil {
				return err
			}
		}
		if err := k.AddrReplace(nil, a.entry(at.index, place.scope, valid)); err != nil {
			return fmt.Errorf("put floating address %s on %s: %w", a.ip, a.iface, a.hint(err))
		}
		return nil
	})
}

// entry is the address as the kernel shall have it. It is never a source that
// the kernel chooses, or this peer's own connections would break with its
// leadership: preferred for no time, and for IPv4, where that alone is not
// heeded, behind the host's own (see rank). IPv6 skips the wait for a conflict,
// which Conflict has found before, and a route to itself.
func (a *Address) entry(index, scope int, valid time.Duration) *netlink.Addr {
	e := &netlink.Addr{
		IPNet:     netlink.NewIPNet(a.ip.AsSlice()),
		LinkIndex: index,
		Scope:     scope,
		ValidLft:  int(valid / time.Second),
	}
	if a.ip.Is6() {
		e.Flags = unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	}
	return e
}

// Remove takes the address from every interface of this host, also where a process
// that crashed put it there, or another program that carries addresses in the same
// way. It reads back, and succeeds only if the host does not have the address.
// Removing what is not there is a success.
//
// What looks like the host's own address, one with a shorter mask, a partner,
// or a preferred life that ends, as DHCP gives, is left alone: the error is
// ErrForeign then. Remove needs a context that outlives the leadership.
func (a *Address) Remove(ctx context.Context) error {
	return withKernel(ctx, func(k *kernel) error {
		if err := a.removeThose(k, floats); err != nil {
			return err
		}
		left, err := k.entries(a.ip)
		if err != nil || len(left) == 0 {
			return err
		}
		if floats(left[0]) {
			return fmt.Errorf("floating address %s is on %s again right after it was removed; stop the program that puts it there",
				a.ip, k.name(left[0].LinkIndex))
		}
		return a.foreign(k, left[0])
	})
}

// Withdraw takes away what Put gave this host, and nothing that another program carries,
// in whichever form.
func (a *Address) Withdraw(ctx context.Context) error {
	return withKernel(ctx, func(k *kernel) error { return a.removeThose(k, ends) })
}

// Given reports whether this host has the address as Put gives it.
func (a *Address) Given(ctx context.Context) (given bool, err error) {
	err = withKernel(ctx, func(k *kernel) error {
		found, err := k.entries(a.ip)
		given = slices.ContainsFunc(found, ends)
		return err
	})
	return given, err
}

func (a *Address) removeThose(k *kernel, are func(netlink.Addr) bool) error {
	found, err := k.entries(a.ip)
	if err != nil {
		return err
	}
	for _, e := range found {
		if !are(e) {
			continue
		}
		if err := a.remove(k, e); err != nil {
			return err
		}
	}
	return nil
}

func (a *Address) remove(k *kernel, e netlink.Addr) error {
	err := k.AddrDel(nil, &e)
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) { // ended meanwhile
		return fmt.Errorf("remove floating address %s from %s: %w", a.ip, k.name(e.LinkIndex), a.hint(err))
	}
	return nil
}

func (a *Address) foreign(k *kernel, e netlink.Addr) error {
	return fmt.Errorf("%w, as %s on %s; take it from there, or write another floating_ip.address", ErrForeign, e.IPNet,
		k.name(e.LinkIndex))
}

// floats reports whether an entry looks like one that is carried from host to
// host: by this package, or for good, as keepalived does it.
func floats(e netlink.Addr) bool {
	ones, bits := e.Mask.Size()
	return ones == bits && e.Peer == nil && (e.Flags&unix.IFA_F_PERMANENT != 0 || e.PreferedLft == 0)
}

// ends reports whether an entry looks like one that Put wrote.
func ends(e netlink.Addr) bool { return floats(e) && e.Flags&unix.IFA_F_PERMANENT == 0 }

// Own fails with ErrForeign if this host has the address in a form that trivet never
// writes: as its own.
func (a *Address) Own(ctx context.Context) error { return withKernel(ctx, a.own) }

func (a *Address) own(k *kernel) error {
	found, err := k.entries(a.ip)
	if err != nil {
		return err
	}
	for _, e := range found {
		if !floats(e) {
			return a.foreign(k, e)
		}
	}
	return nil
}

// hint adds to an error of the kernel what to do about it.
func (a *Address) hint(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: this process needs CAP_NET_ADMIN", err)
	case errors.Is(err, unix.EACCES) && !a.ip.Is4():
		return fmt.Errorf("%w: IPv6 is off on this interface; set net.ipv6.conf.%s.disable_ipv6 to 0", err, a.iface)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%w: this kernel runs without the family of the address", err)
	}
	return err
}
