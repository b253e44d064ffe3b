package firewall

import (
	"context"
	"sync"
	"time"
)

// Noop is the driver of hosts that filter nothing: it keeps rules and lease in
// memory, so that everything around them goes on as it does elsewhere. It
// implements Chains and Lease; its methods may be called concurrently.
type Noop struct {
	mu    sync.Mutex
	rules Ruleset
	arm   time.Time // until when
	lease time.Time
}

// Replace implements Chains.
func (n *Noop) Replace(_ context.Context, r Ruleset) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = r
	return nil
}

// Change implements Chains.
func (n *Noop) Change(_ context.Context, c Change) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = n.rules.With(c)
	return nil
}

// Read implements Chains.
func (n *Noop) Read(context.Context) (Ruleset, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules, nil
}

// Arm implements Lease.
func (n *Noop) Arm(_ context.Context, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arm = time.Now().Add(d)
	return nil
}

// Open implements Lease.
func (n *Noop) Open(_ context.Context, d time.Duration) error { return n.swap(&n.arm, d) }

// Hold implements Lease.
func (n *Noop) Hold(_ context.Context, d time.Duration) error { return n.swap(&n.lease, d) }

func (n *Noop) swap(from *time.Time, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !time.Now().Before(*from) {
		return ErrLapsed
	}
	*from = time.Time{}
	n.lease = time.Now().Add(d)
	return nil
}

// Shut implements Lease.
func (n *Noop) Shut(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arm, n.lease = time.Time{}, time.Time{}
	return nil
}
