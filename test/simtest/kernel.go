package simtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/test/hostkernel"
)

// Kernel is what the PXE filter and the floating IP meet in one simulated
// host: a hostkernel.Model of each, and an address that ends by itself, by the
// host's monotonic clock and late. It outlives the process. Whenever the
// lease or the address comes into force somewhere, the oracle looks at all hosts.
type Kernel struct {
	c       *Cluster
	host    string
	filter  hostkernel.Model
	shown   hostkernel.Model // lets the address out
	foreign chan struct{}    // capacity 1: our rules may have been changed
	// lease and freeze are firewall.lease and firewall.freeze of the host.
	lease, freeze time.Duration

	mu      sync.Mutex
	address time.Time // when it ends; zero: not there
	gated   bool      // the address is let out while shown says so; else always
	frozen  time.Time // since when a hypervisor keeps the host from running; zero: it runs
	thawed  time.Time // when it did that last
	busy    time.Time // until when calls of the guard wait
	// meet, if set, is called at each step of the host's process: by the guard's
	// goroutine right before it writes, with "arm", "swap" or "put", and with
	// "swapped" right after a swap, and " of address" behind these for the lease of
	// the address; with "stamp" when an acknowledgement is timed and
	// "acknowledge" when it is about to leave; with "question" and "answer" before and
	// after a new leader's question is answered. A test stops the process there; it
	// must not wait in "stamp", under a lock of the process.
	meet func(what string)
}

// maxLate is how late the simulated kernels end an element or an address: a
// little more than was measured (41 ms and 0.9 s).
const (
	maxLate        = 60 * time.Millisecond
	maxLateAddress = time.Second
)

// newKernel is the kernel of a host that has just booted.
func newKernel(c *Cluster, host string) *Kernel {
	k := &Kernel{c: c, host: host, foreign: make(chan struct{}, 1), lease: doorLease}
	k.filter.Late = time.Duration(c.rng.Int64N(int64(maxLate)))
	k.filter.Opened = func() {
		k.alone("door", (*Kernel).door)
		if v, known := c.newest(); known {
			c.Oracle.doors.renewed(k.host, v)
		}
	}
	k.shown.Late = time.Duration(c.rng.Int64N(int64(maxLate)))
	k.shown.Opened = func() { k.alone("address", (*Kernel).holds) }
	return k
}

// door reports whether the lease is in force, and the host runs.
func (k *Kernel) door(now time.Time) bool {
	until := k.filter.Until()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.frozen.IsZero() && now.Before(until)
}

// holds reports whether the address is on this host and let out, and the host runs.
func (k *Kernel) holds(now time.Time) bool {
	shown := now.Before(k.shown.Until())
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.frozen.IsZero() && now.Before(k.address) && (shown || !k.gated)
}

// freezes reports whether a hypervisor may freeze the host now, and begins that: at most
// once while anything that was written before can be in force. The process is stopped.
func (k *Kernel) freezes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.freeze == 0 || !k.frozen.IsZero() || time.Since(k.thawed) < 10*time.Second {
		return false
	}
	k.frozen = time.Now()
	return true
}

// thaw lets the host go on: its kernel's timers have stood still.
func (k *Kernel) thaw() {
	k.mu.Lock()
	now, since := time.Now(), k.frozen
	k.frozen, k.thawed = time.Time{}, now
	if k.address.After(since) {
		k.address = k.address.Add(now.Sub(since))
	}
	k.mu.Unlock()
	k.filter.Froze(since, now.Sub(since))
	k.shown.Froze(since, now.Sub(since))
	if k.door(now) {
		k.alone("door", (*Kernel).door)
	}
	if k.holds(now) {
		k.alone("address", (*Kernel).holds)
	}
}

// occupy makes every call of the guard wait for so long, as one does while another
// program holds the kernel's lock.
func (k *Kernel) occupy(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = time.Now().Add(d)
}

// await waits until calls go through, and reports whether it had to. No context ends
// that: what the caller does not wait for happens all the same.
func (k *Kernel) await() (waited bool) {
	k.mu.Lock()
	wait := time.Until(k.busy)
	k.mu.Unlock()
	time.Sleep(wait) // in a bubble
	return wait > 0
}

// onWrite has f called at every step of the process, see meet; nil ends that.
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

// gate builds the tables that keep the address from its neighbours.
func (k *Kernel) gate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gated = true
}

// Flush is what an operator does who flushes all rules. What then gets through is
// not the door's doing.
func (k *Kernel) Flush() {
	k.filter.Flush()
	k.shown.Flush()
	select {
	case k.foreign <- struct{}{}:
	default:
	}
}

// Lapse ends the lease as if its time were over.
func (k *Kernel) Lapse() { k.filter.Lapse() }

// alone tells the oracle when a door or an address is in force twice.
func (k *Kernel) alone(what string, inForce func(*Kernel, time.Time) bool) {
	now := time.Now()
	for _, p := range k.c.everyHost() {
		if p.Kernel != nil && p.Kernel != k && inForce(p.Kernel, now) {
			k.c.Oracle.broken("one-%s: %s has it while %s still does", what, k.host, p.Kernel.host)
		}
	}
}

// errKilled is what the kernel answers to a process that was killed.
var errKilled = errors.New("the process was killed")

// pass waits until a process that is stopped runs again, or until ctx ends. It
// fails when the process was killed: nothing that its goroutines still do reaches
// the kernel.
func pass(ctx context.Context, gate *Gate) error {
	switch {
	case !gate.Wait(ctx.Done()):
		return ctx.Err()
	case gate.Killed():
		return errKilled
	}
	return nil
}

// kernelLease is a lease as one process of the host sees it. A process that is
// stopped does not see its contexts end: what it was about to write it writes
// when it goes on.
type kernelLease struct {
	k    *Kernel
	gate *Gate
	of   *hostkernel.Model
	name string // behind the steps that are met
}

// Arm implements firewall.Lease.
func (l kernelLease) Arm(ctx context.Context, d time.Duration) error {
	l.k.met("arm" + l.name)
	l.k.await()
	if err := pass(context.Background(), l.gate); err != nil {
		return err
	}
	if l.of == &l.k.shown {
		l.k.gate()
		if err := l.of.Shut(ctx); err != nil {
			return err
		}
	}
	return l.of.Arm(ctx, d)
}

// Open implements firewall.Lease.
func (l kernelLease) Open(ctx context.Context, d time.Duration) error {
	return l.swap(ctx, d, l.of.Open)
}

// Hold implements firewall.Lease.
func (l kernelLease) Hold(ctx context.Context, d time.Duration) error {
	return l.swap(ctx, d, l.of.Hold)
}

func (l kernelLease) swap(ctx context.Context, d time.Duration, how func(context.Context, time.Duration) error) error {
	l.k.met("swap" + l.name)
	l.k.await()
	if err := pass(context.Background(), l.gate); err != nil {
		return err
	}
	if err := how(ctx, d); err != nil {
		return err
	}
	l.k.met("swapped" + l.name)
	return nil
}

// Shut implements firewall.Lease.
func (l kernelLease) Shut(ctx context.Context) error {
	l.k.await()
	if err := pass(context.Background(), l.gate); err != nil {
		return err
	}
	return l.of.Shut(ctx)
}

// kernelChains are the rules as one process of the host sees them.
type kernelChains struct {
	k    *Kernel
	gate *Gate
}

// Replace implements firewall.Chains.
func (c kernelChains) Replace(ctx context.Context, r firewall.Ruleset) error {
	if err := pass(ctx, c.gate); err != nil {
		return err
	}
	return c.k.filter.Replace(ctx, r)
}

// Change implements firewall.Chains.
func (c kernelChains) Change(ctx context.Context, d firewall.Change) error {
	if err := pass(ctx, c.gate); err != nil {
		return err
	}
	return c.k.filter.Change(ctx, d)
}

// Read implements firewall.Chains.
func (c kernelChains) Read(ctx context.Context) (firewall.Ruleset, error) {
	if err := pass(ctx, c.gate); err != nil {
		return firewall.Ruleset{}, err
	}
	return c.k.filter.Read(ctx)
}

// kernelAddress is the floating IP as one process of the host sees it.
type kernelAddress struct {
	k    *Kernel
	gate *Gate
}

// Put implements firewall.Address. The kernel takes it whenever it comes.
func (a kernelAddress) Put(ctx context.Context, d time.Duration) error {
	a.k.met("put")
	late := a.k.await()
	stopped := a.gate.Paused()
	if err := pass(context.Background(), a.gate); err != nil {
		return err
	}
	if !stopped && !late && ctx.Err() != nil {
		return ctx.Err()
	}
	a.k.mu.Lock()
	a.k.address = time.Now().Add(d + time.Duration(a.k.c.rng.Int64N(int64(maxLateAddress))))
	a.k.mu.Unlock()
	if a.k.holds(time.Now()) {
		a.k.alone("address", (*Kernel).holds)
	}
	return nil
}

// Remove implements firewall.Address.
func (a kernelAddress) Remove(ctx context.Context) error {
	a.k.await()
	if err := pass(ctx, a.gate); err != nil {
		return err
	}
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	a.k.address, a.k.gated = time.Time{}, false
	return a.k.shown.Shut(ctx)
}

// Announce implements firewall.Address.
func (a kernelAddress) Announce(context.Context) error { return nil }

// Conflict implements firewall.Address.
func (a kernelAddress) Conflict(context.Context) (string, error) { return "", nil }

// Contested implements firewall.Address: no stranger is on the simulated network.
func (a kernelAddress) Contested(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}
