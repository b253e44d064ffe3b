package simtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// Kernel is what the PXE filter and the floating IP meet in one simulated
// host: rules, a lease and an address that end by themselves, by the host's
// monotonic clock and a little late. It outlives the process. Whenever one of
// them comes into force somewhere, the oracle looks at all hosts.
type Kernel struct {
	c    *Cluster
	host string

	mu      sync.Mutex
	arm     time.Time // when it ends; zero: not there
	lease   time.Time
	address time.Time
	rules   firewall.Ruleset
	built   bool
	foreign chan struct{} // capacity 1: somebody was at our rules
	lateBy  time.Duration // how late this kernel ends what it shall end
	// conceded is until when the address may be here although another host has
	// it: its write was stopped between the check and the kernel (design §5.4).
	conceded time.Time
	// meet, if set, is called by the guard's goroutine right before it writes,
	// with "arm", "swap" or "put", and with "swapped" right after a swap. A test
	// stops the process there.
	meet func(what string)
}

// maxLate is how late the simulated kernels end an element or an address: a
// little more than was measured (41 ms and 260 ms).
const (
	maxLate        = 60 * time.Millisecond
	maxLateAddress = 240 * time.Millisecond
)

// newKernel is the kernel of a host that has just booted.
func newKernel(c *Cluster, host string) *Kernel {
	return &Kernel{c: c, host: host, foreign: make(chan struct{}, 1), lateBy: time.Duration(c.rng.Int64N(int64(maxLate)))}
}

// door reports whether the lease is in force.
func (k *Kernel) door(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Before(k.lease)
}

// holds reports whether the address is on this host.
func (k *Kernel) holds(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Before(k.address)
}

// onWrite has f called before every write of the guard; nil ends that.
func (k *Kernel) onWrite(f func(what string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.meet = f
}

func (k *Kernel) met(what string) {
	k.mu.Lock()
	meet := k.meet
	k.mu.Unlock()
	if meet != nil {
		meet(what)
	}
}

// Flush is what somebody does who flushes all rules: lists, lease and armed
// element are gone, and with them the filter. What then gets through is not
// the door's doing.
func (k *Kernel) Flush() {
	k.mu.Lock()
	k.arm, k.lease, k.rules, k.built = time.Time{}, time.Time{}, firewall.Ruleset{}, false
	k.mu.Unlock()
	select {
	case k.foreign <- struct{}{}:
	default:
	}
}

// Lapse ends the lease as if its time were over.
func (k *Kernel) Lapse() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lease = time.Time{}
}

// alone tells the oracle when a door or an address is in force twice.
func (k *Kernel) alone(what string, inForce func(*Kernel, time.Time) bool) {
	now := time.Now()
	for _, p := range k.c.everyHost() {
		if p.Kernel == nil || p.Kernel == k || what == "address" && p.Kernel.concedes(now) {
			continue
		}
		if inForce(p.Kernel, now) {
			k.c.Oracle.broken("one-%s: %s has it while %s still does", what, k.host, p.Kernel.host)
		}
	}
}

// concedes reports whether the design concedes that the address is here.
func (k *Kernel) concedes(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Before(k.conceded)
}

// kernelLease is the lease as one process of the host sees it. A process that is
// stopped does not see its contexts end: what it was about to write it writes
// when it goes on.
type kernelLease struct {
	k    *Kernel
	gate *Gate
}

// Arm implements firewall.Lease.
func (l kernelLease) Arm(_ context.Context, d time.Duration) error {
	l.k.met("arm")
	l.gate.Wait(nil)
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.k.arm = l.k.end(d)
	return nil
}

// end is when something ends that is put now for d; the lock is held.
func (k *Kernel) end(d time.Duration) time.Time { return time.Now().Add(d + k.lateBy) }

// Open implements firewall.Lease.
func (l kernelLease) Open(_ context.Context, d time.Duration) error {
	return l.swap(d, func(k *Kernel) *time.Time { return &k.arm })
}

// Hold implements firewall.Lease.
func (l kernelLease) Hold(_ context.Context, d time.Duration) error {
	return l.swap(d, func(k *Kernel) *time.Time { return &k.lease })
}

// swap is one transaction: it fails as a whole when what it deletes has ended.
func (l kernelLease) swap(d time.Duration, from func(*Kernel) *time.Time) error {
	l.k.met("swap")
	l.gate.Wait(nil)
	k := l.k
	k.mu.Lock()
	element := from(k)
	if !time.Now().Before(*element) {
		k.mu.Unlock()
		return firewall.ErrLapsed
	}
	*element = time.Time{}
	k.lease = k.end(d)
	k.mu.Unlock()
	k.alone("door", (*Kernel).door)
	k.met("swapped")
	return nil
}

// Shut implements firewall.Lease.
func (l kernelLease) Shut(context.Context) error {
	l.gate.Wait(nil)
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.k.arm, l.k.lease = time.Time{}, time.Time{}
	return nil
}

// kernelChains are the rules as one process of the host sees them.
type kernelChains struct {
	k    *Kernel
	gate *Gate
}

// Replace implements firewall.Chains.
func (c kernelChains) Replace(ctx context.Context, r firewall.Ruleset) error {
	if !c.gate.Wait(ctx.Done()) {
		return ctx.Err()
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	c.k.rules, c.k.built = r, true
	return nil
}

// Change implements firewall.Chains.
func (c kernelChains) Change(ctx context.Context, d firewall.Change) error {
	if !c.gate.Wait(ctx.Done()) {
		return ctx.Err()
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if !c.k.built {
		return firewall.ErrForeign
	}
	c.k.rules = c.k.rules.With(d)
	return nil
}

// Read implements firewall.Chains.
func (c kernelChains) Read(ctx context.Context) (firewall.Ruleset, error) {
	if !c.gate.Wait(ctx.Done()) {
		return firewall.Ruleset{}, ctx.Err()
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if !c.k.built {
		return firewall.Ruleset{}, fmt.Errorf("%w: the table is gone", firewall.ErrForeign)
	}
	return c.k.rules, nil
}

// kernelAddress is the floating IP as one process of the host sees it.
type kernelAddress struct {
	k    *Kernel
	gate *Gate
}

// Put implements firewall.Address. The kernel takes it whenever it comes: that
// is what the design concedes, and the oracle is told of.
func (a kernelAddress) Put(ctx context.Context, d time.Duration) error {
	a.k.met("put")
	stopped := a.gate.Paused()
	a.gate.Wait(nil)
	if !stopped && ctx.Err() != nil {
		return ctx.Err()
	}
	late := time.Duration(a.k.c.rng.Int64N(int64(maxLateAddress)))
	a.k.mu.Lock()
	a.k.address = time.Now().Add(d + late)
	if stopped {
		a.k.conceded = a.k.address
	}
	a.k.mu.Unlock()
	if !stopped {
		a.k.alone("address", (*Kernel).holds)
	}
	return nil
}

// Remove implements firewall.Address.
func (a kernelAddress) Remove(ctx context.Context) error {
	if !a.gate.Wait(ctx.Done()) {
		return ctx.Err()
	}
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	a.k.address = time.Time{}
	return nil
}

// Announce implements firewall.Address.
func (a kernelAddress) Announce(context.Context) error { return nil }

// Conflict implements firewall.Address.
func (a kernelAddress) Conflict(context.Context) (string, error) { return "", nil }
