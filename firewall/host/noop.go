package host

import (
	"context"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// noop is the filter of driver noop: the lists are kept to be read back, and nothing is
// filtered. The lease does not end by itself, since nothing depends on it.
type noop struct {
	mu    sync.Mutex
	rules firewall.Ruleset
}

// Replace implements firewall.Chains.
func (n *noop) Replace(_ context.Context, r firewall.Ruleset) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = r
	return nil
}

// Change implements firewall.Chains.
func (n *noop) Change(_ context.Context, c firewall.Change) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = n.rules.With(c)
	return nil
}

// Read implements firewall.Chains.
func (n *noop) Read(context.Context) (firewall.Ruleset, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules, nil
}

func (*noop) Arm(context.Context, time.Duration) error  { return nil }
func (*noop) Open(context.Context, time.Duration) error { return nil }
func (*noop) Hold(context.Context, time.Duration) error { return nil }
func (*noop) Shut(context.Context) error                { return nil }
