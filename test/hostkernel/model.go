// Package hostkernel is a model of the kernel of a host, as the PXE filter meets it: for
// simulated hosts.
package hostkernel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// Model is the lists of a host, and a lease that ends by itself by the monotonic clock,
// in memory. It outlives the processes that use it, and filters nothing.
//
// It implements firewall.Chains and firewall.Lease; its methods may be called
// concurrently.
type Model struct {
	// Late is how much later than asked for an element ends, as a kernel's timers
	// are. It is set before the first use.
	Late time.Duration
	// Opened, if set, is called after each successful Open and Hold, by the caller
	// of those, while no lock is held. It is set before the first use.
	Opened func()

	mu    sync.Mutex
	arm   time.Time // when it ends; zero: it is not there
	lease time.Time
	rules firewall.Ruleset
	built bool
}

// Replace implements firewall.Chains.
func (m *Model) Replace(_ context.Context, r firewall.Ruleset) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules, m.built = r, true
	return nil
}

// Change implements firewall.Chains.
func (m *Model) Change(_ context.Context, c firewall.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.built {
		return firewall.ErrForeign
	}
	m.rules = m.rules.With(c)
	return nil
}

// Read implements firewall.Chains.
func (m *Model) Read(context.Context) (firewall.Ruleset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.built {
		return firewall.Ruleset{}, fmt.Errorf("%w: the table is gone", firewall.ErrForeign)
	}
	return m.rules, nil
}

// Arm implements firewall.Lease.
func (m *Model) Arm(_ context.Context, d time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arm = m.end(d)
	return nil
}

// end is when an element ends that is put now for d; the lock is held.
func (m *Model) end(d time.Duration) time.Time { return time.Now().Add(d + m.Late) }

// Open implements firewall.Lease.
func (m *Model) Open(_ context.Context, d time.Duration) error { return m.swap(&m.arm, d) }

// Hold implements firewall.Lease.
func (m *Model) Hold(_ context.Context, d time.Duration) error { return m.swap(&m.lease, d) }

// swap is one transaction: it fails as a whole when what it deletes has ended.
func (m *Model) swap(from *time.Time, d time.Duration) error {
	m.mu.Lock()
	if !time.Now().Before(*from) {
		m.mu.Unlock()
		return firewall.ErrLapsed
	}
	*from = time.Time{}
	m.lease = m.end(d)
	m.mu.Unlock()
	if m.Opened != nil {
		m.Opened()
	}
	return nil
}

// Shut implements firewall.Lease.
func (m *Model) Shut(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arm, m.lease = time.Time{}, time.Time{}
	return nil
}

// Flush is what an operator does who flushes all rules: lists, lease and armed
// element are gone, and with them the filter.
func (m *Model) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arm, m.lease, m.rules, m.built = time.Time{}, time.Time{}, firewall.Ruleset{}, false
}

// Lapse ends the lease as if its time were over.
func (m *Model) Lapse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = time.Time{}
}

// Froze makes what was in force at a time end later by d, as it does on a host that a
// hypervisor froze then for so long.
func (m *Model) Froze(at time.Time, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, end := range []*time.Time{&m.arm, &m.lease} {
		if end.After(at) {
			*end = end.Add(d)
		}
	}
}

// Until returns when the lease ends, or has ended by itself; zero after Shut.
func (m *Model) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// Lets reports whether a DHCP request with a source address gets through at a
// moment: the lease is asked first, then the lists (see firewall.Ruleset).
func (m *Model) Lets(mac string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.built || !now.Before(m.lease) {
		return false
	}
	return slices.Contains(m.rules.Allow, mac) || m.rules.Pass && !slices.Contains(m.rules.Deny, mac)
}
