package failover

import (
	"fmt"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// byNumber forbids to act when too many are unhealthy together: then the fault is
// likely a network, a power feed or Kubernetes itself, and to switch machines off
// would make it worse.
func byNumber(f *facts, _ *nodeFacts) string {
	if names, allowed := f.count(); len(names) > allowed {
		return f.tooMany(names, allowed)
	}
	return ""
}

func (f *facts) tooMany(names []string, allowed int) string {
	if allowed == 0 && len(names) == 1 {
		// The bounds let no kube node be lost at all: with the shipped ones that is so of one and of two.
		all, g := len(f.nodes), f.settings.Guard
		bounds := fmt.Sprintf(
			"%s is unhealthy, and of %d kube nodes none may be (failover.min_healthy is %q, failover.max_unhealthy %q): nothing is ever done in this cluster; ",
			names[0], all, g.MinHealthy, g.MaxUnhealthy)
		if all == 1 {
			return bounds + "of one kube node nothing can be moved anyway"
		}
		return bounds + fmt.Sprintf("failover.min_healthy: %d lets one be lost", all-1)
	}
	return fmt.Sprintf(
		"%d of %d kube nodes are unhealthy together (%s), at most %d may be (failover.min_healthy, failover.max_unhealthy): the fault may be elsewhere",
		len(names), len(f.nodes), listed(names), allowed)
}

// unhealthy reports whether a kube node counts as unhealthy when it is asked how
// many are. One sign is enough here: who doubts does nothing.
func (f *facts) unhealthy(n *nodeFacts) bool {
	return n.Ready != kubestate.ReadyTrue || f.overdue(n) || n.silent > n.answers || n.remediation != nil
}

// count returns the unhealthy kube nodes by name and how many there may be.
func (f *facts) count() (names []string, allowed int) {
	for _, n := range f.nodes {
		if f.unhealthy(n) {
			names = append(names, n.Name)
		}
	}
	all, g := len(f.nodes), f.settings.Guard
	allowed = all
	if !g.MinHealthy.IsZero() {
		allowed = min(allowed, all-g.MinHealthy.AtLeast(all))
	}
	if !g.MaxUnhealthy.IsZero() {
		allowed = min(allowed, g.MaxUnhealthy.AtMost(all))
	}
	return names, max(0, allowed)
}
