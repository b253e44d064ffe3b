package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

var _ firewall.Lease = (*Lease)(nil)

// Lease is the set of gated ports that are open, each with a timeout that the
// kernel keeps. It has a socket of its own, so that no long list goes before a
// swap. One goroutine calls it.
type Lease struct {
	filter *Filter
	socket *socket
}

// Lease returns the lease of this filter; Close ends its socket, not the lease.
func (f *Filter) Lease() *Lease { return &Lease{filter: f, socket: f.socket()} }

// Close closes the socket. What is in force ends by itself.
func (l *Lease) Close() error { return l.socket.close() }

// Arm implements firewall.Lease. It fails with firewall.ErrForeign when there is
// nothing to arm; Shut builds it.
func (l *Lease) Arm(ctx context.Context, d time.Duration) error {
	if err := checkLife(d); err != nil {
		return err
	}
	err := l.swap(ctx, []netlink.Message{l.filter.flushSet(setArm)}, l.filter.addElements(setArm, d, armed()))
	if errors.Is(err, unix.ENOENT) {
		return l.missing(ctx, err)
	}
	return err
}

// Open implements firewall.Lease. It fails with firewall.ErrForeign when the
// sets are gone.
func (l *Lease) Open(ctx context.Context, d time.Duration) error {
	if err := checkLife(d); err != nil {
		return err
	}
	f := l.filter
	err := l.swap(ctx, f.deleteElements(setArm, armed()), []netlink.Message{f.flushSet(setLease)},
		f.addElements(setLease, d, gated()...))
	return l.lapsed(ctx, err)
}

// Hold implements firewall.Lease. It fails with firewall.ErrForeign when the
// sets are gone.
func (l *Lease) Hold(ctx context.Context, d time.Duration) error {
	if err := checkLife(d); err != nil {
		return err
	}
	f := l.filter
	err := l.swap(ctx, f.deleteElements(setLease, gated()...), f.addElements(setLease, d, gated()...))
	return l.lapsed(ctx, err)
}

// Shut implements firewall.Lease. Where rules are not ours any more, the table is
// rebuilt, closed, with empty lists.
func (l *Lease) Shut(ctx context.Context) error {
	return l.filter.shut(ctx, l.socket, setLease, setArm)
}

// swap makes a transaction of its own.
func (l *Lease) swap(ctx context.Context, parts ...[]netlink.Message) error {
	return l.socket.commit(ctx, 0, slices.Concat(parts...)...)
}

// lapsed tells from one another why an element to swap from is not there: it
// has ended, or the table is not ours any more.
func (l *Lease) lapsed(ctx context.Context, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if why := l.missing(ctx, nil); why != nil {
		return why
	}
	return firewall.ErrLapsed
}

// missing returns what of the table is not ours, or else otherwise.
func (l *Lease) missing(ctx context.Context, otherwise error) error {
	seen, err := l.filter.readRules(ctx, l.socket)
	switch {
	case err != nil:
		return err
	case seen.foreign != "":
		return seen.err()
	}
	return otherwise
}

// armed is the element of set arm.
func armed() []byte { return gated()[0] }

// checkLife refuses what would never end: to the kernel, no timeout is for ever.
func checkLife(d time.Duration) error {
	if d < time.Millisecond || d > maxLife {
		return fmt.Errorf("a lease of %v: it must last from 1ms to %v", d, maxLife)
	}
	return nil
}
