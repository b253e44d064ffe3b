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

// Lease is what may pass, as elements of a set, each with a timeout that the kernel
// keeps: the gated ports, or the floating IP. It has a socket of its own, so that no
// long list goes before a swap. One goroutine calls it.
type Lease struct {
	filters []*Filter // one or more, swapped in one transaction
	socket  *socket
}

// Lease returns the lease of this filter; Close ends its socket, not the lease.
func (f *Filter) Lease() *Lease { return newLease(f) }

func newLease(filters ...*Filter) *Lease {
	return &Lease{filters: filters, socket: filters[0].socket()}
}

// Close closes the socket. What is in force ends by itself.
func (l *Lease) Close() error { return l.socket.close() }

// Arm implements firewall.Lease. It fails with firewall.ErrForeign when there is
// nothing to arm; Shut builds it.
func (l *Lease) Arm(ctx context.Context, d time.Duration) error {
	err := l.swap(ctx, d, func(f *Filter) []netlink.Message {
		changes := append([]netlink.Message{f.flushSet(setArm)}, f.addElements(setArm, d, f.gated[0])...)
		if f.held != "" {
			changes = append(changes, f.ensureElements(f.held, f.gated...)...)
		}
		return changes
	})
	if errors.Is(err, unix.ENOENT) {
		return l.missing(ctx, err)
	}
	return err
}

// Open implements firewall.Lease. It fails with firewall.ErrForeign when the
// sets are gone.
func (l *Lease) Open(ctx context.Context, d time.Duration) error {
	err := l.swap(ctx, d, func(f *Filter) []netlink.Message {
		return slices.Concat(f.deleteElements(setArm, f.gated[0]), []netlink.Message{f.flushSet(setLease)},
			f.addElements(setLease, d, f.gated...))
	})
	return l.lapsed(ctx, err)
}

// Hold implements firewall.Lease. It fails with firewall.ErrForeign when the
// sets are gone.
func (l *Lease) Hold(ctx context.Context, d time.Duration) error {
	err := l.swap(ctx, d, func(f *Filter) []netlink.Message {
		return append(f.deleteElements(setLease, f.gated...), f.addElements(setLease, d, f.gated...)...)
	})
	return l.lapsed(ctx, err)
}

// Shut implements firewall.Lease. Where rules are not ours any more, their table is
// rebuilt, closed, with empty lists.
func (l *Lease) Shut(ctx context.Context) error {
	errs := make([]error, len(l.filters))
	for i, f := range l.filters {
		errs[i] = f.shut(ctx, l.socket, setLease, setArm)
	}
	return errors.Join(errs...)
}

// swap makes what change says of each table, all in one transaction, for elements that live for d. It
// refuses those that would never end: to the kernel, no timeout is for ever.
func (l *Lease) swap(ctx context.Context, d time.Duration, change func(*Filter) []netlink.Message) error {
	if d < time.Millisecond || d > maxLife {
		return fmt.Errorf("a lease of %v: it must last from 1ms to %v", d, maxLife)
	}
	var changes []netlink.Message
	for _, f := range l.filters {
		changes = append(changes, change(f)...)
	}
	return l.socket.commit(ctx, 0, changes...)
}

// lapsed tells from one another why an element to swap from is not there: it
// has ended, or a table is not ours any more.
func (l *Lease) lapsed(ctx context.Context, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if why := l.missing(ctx, nil); why != nil {
		return why
	}
	return firewall.ErrLapsed
}

// missing returns what of the tables is not ours, or is not as Arm left it: a table that was
// built again lets everything out. Else it returns otherwise.
func (l *Lease) missing(ctx context.Context, otherwise error) error {
	for _, f := range l.filters {
		var held []string
		if f.held != "" {
			held = append(held, f.held)
		}
		seen, err := f.readRules(ctx, l.socket, held...)
		if err == nil {
			err = seen.err()
		}
		if err == nil && f.held != "" && len(seen.elements[f.held]) == 0 {
			err = fmt.Errorf("%w: set %s of table %s is empty", firewall.ErrForeign, f.held, f.table)
		}
		if err != nil {
			return err
		}
	}
	return otherwise
}
