package failover

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// signs says whether a kube node is held for dead, and in a sentence why or why
// not. It is quick when Lease and peers say so together, slow when it is
// Kubernetes alone that has given it up.
func (f *facts) signs(n *nodeFacts) (suspect, quick bool, why string) {
	switch {
	case !f.api.Answers:
		return false, false, f.apiSilent()
	case !f.synced:
		return false, false, notSynced
	case n.Shutdown.Proven:
		return true, true, shutDown + ": its kubelet said so and is silent now, and its device says off"
	case f.overdue(n) && n.unheard():
		return true, true, fmt.Sprintf("%s%s, and %s", n.shutText(), f.leaseText(n), n.votesText())
	case f.notReadyLong(n):
		return true, false, fmt.Sprintf("%sReady is %v for %v (failover.not_ready_after is %v)", n.shutText(), n.Ready,
			rounded(n.NotReady), f.settings.Detection.NotReadyAfter)
	case f.foundNotReady(n):
		return true, false, fmt.Sprintf("Ready is %v for %v by the log (failover.not_ready_after is %v)",
			n.Ready, rounded(f.clock.Sub(n.record.Changed)), f.settings.Detection.NotReadyAfter)
	}
	return false, false, f.alive(n)
}

// shutText begins the reason against a machine whose kubelet reported a shutdown.
func (n *nodeFacts) shutText() string {
	switch {
	case !n.Shutdown.Said:
		return ""
	case n.Shutdown.On:
		return stayedOn + "; "
	}
	return shutDown + "; "
}

const notSynced = "not all kube nodes of this cluster have been read yet"

func (f *facts) apiSilent() string {
	if f.api.Silence == 0 {
		return fmt.Sprintf("the API server of %s has not answered yet (%s)", f.cluster, f.api.Why)
	}
	return fmt.Sprintf("the API server of %s is silent for %v (%s): no kubelet can renew its Lease, so no age counts",
		f.cluster, rounded(f.api.Silence), f.api.Why)
}

// alive says why a kube node is not held for dead.
func (f *facts) alive(n *nodeFacts) string {
	d := f.settings.Detection
	switch {
	case f.overdue(n):
		return fmt.Sprintf("%s, but %s; it takes %d to hold it for dead", f.leaseText(n), n.votesText(), n.voters/2+1)
	case n.unheard():
		return fmt.Sprintf("%s, but %s; it is held for dead from %v on (failover.lease_age)", n.votesText(), f.leaseText(n),
			d.LeaseAge)
	case n.Ready != kubestate.ReadyTrue && d.NotReadyAfter == 0:
		return fmt.Sprintf("Ready is %v for %v, which alone never counts (failover.not_ready_after is 0)", n.Ready,
			rounded(n.NotReady))
	case n.Ready != kubestate.ReadyTrue:
		return fmt.Sprintf("Ready is %v for %v; held for dead from %v on (failover.not_ready_after)", n.Ready,
			rounded(n.NotReady), d.NotReadyAfter)
	case f.api.Back >= 0 && f.api.Back < d.LeaseAge:
		return fmt.Sprintf("the API server answers again for %v: all ages count from then", rounded(f.api.Back))
	}
	return fmt.Sprintf("it is Ready, %s, and %s", f.leaseText(n), n.votesText())
}

// leaseText is a clause about a Lease.
func (f *facts) leaseText(n *nodeFacts) string {
	switch {
	case !n.Leased:
		return "it has no Lease"
	case n.Late:
		return "its Lease has not changed since this peer watches, and it was not Ready then"
	case n.LeaseAge < f.settings.Detection.LeaseAge && f.overdue(n):
		return "its Lease has not changed since this peer watches, and a remediation is open"
	case !f.overdue(n):
		return fmt.Sprintf("its Lease is %v old", rounded(n.LeaseAge))
	}
	return fmt.Sprintf("its Lease has not changed for %v", rounded(n.LeaseAge))
}

// votesText is a clause about what peers hear.
func (n *nodeFacts) votesText() string {
	switch {
	case n.silent+n.answers == 0 && n.Kubelet == "":
		return "no peer knows where its kubelet listens"
	case n.silent+n.answers == 0:
		return "no peer has an opinion of its kubelet"
	case n.silent == 0:
		return fmt.Sprintf("%d of %d peers hear its kubelet", n.answers, n.voters)
	}
	return fmt.Sprintf("%d of %d peers do not hear its kubelet", n.silent, n.voters)
}

// maxNamed is how many names a sentence lists.
const maxNamed = 5

func listed(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
