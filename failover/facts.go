package failover

import (
	"net"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// facts are all that a judgement on one cluster rests on, as of one moment. The
// rules are pure functions of them.
type facts struct {
	settings Settings
	cluster  string
	synced   bool
	api      APIState
	clock    fsm.Time // cluster time
	nodes    []*nodeFacts
	open     []kubestate.Remediation // of this cluster
	history  []kubestate.Remediation // of this cluster, the newest first
	pause    kubestate.Pause
	paused   bool
	hold     kubestate.Hold
	held     bool
	peers    []peerFacts
	others   elsewhere // only who may be acted on needs them
	counted  *census   // of nodes and others, once it was needed
}

// nodeFacts are those of one kube node.
type nodeFacts struct {
	WatchedNode
	record   kubestate.Node // as the log has it
	recorded bool
	silent   int // votes
	answers  int
	voters   int
	// unheardFor is how long a majority has not heard its kubelet, lasting for how long
	// it could have been a suspect for what has to last; each of them for hold.
	unheardFor, lasting time.Duration
	devices             []string // that can switch it off, in their order
	// remediation is the one that is open, nil if none.
	remediation *kubestate.Remediation
	cancelled   *kubestate.Remediation // by an operator, and it was not well since; nil if none
	unread      string                 // why the devices with which it was released may not be those in force
}

// peerFacts are those of one peer of ours.
type peerFacts struct {
	name    string
	hosts   []string // names and addresses of its host
	unknown []string // names of which no address is known
	machine Identity // as it told last
	mute    bool     // that may be old, or is not known yet
	self    bool
	alive   bool // its session lives
}

// readState adds to facts what the log knows.
func (f *facts) readState(v fsm.View, self string, known *peerHosts) {
	f.clock = v.Now()
	f.pause, f.paused = v.FailoverPause(f.cluster)
	f.hold, f.held = v.FailoverHold(f.cluster)
	for _, r := range v.Remediations() {
		if r.Cluster == f.cluster {
			f.open = append(f.open, r)
		}
	}
	for _, n := range f.nodes {
		n.record, n.recorded = v.KubeNode(f.cluster, n.UID)
		n.silent, n.answers, n.voters = v.KubeVotes(f.cluster, n.UID)
		if r, ok := v.OpenRemediation(f.cluster, n.UID); ok {
			n.remediation = &r
		}
	}
	for _, m := range v.Members() {
		_, alive := v.SessionOf(m.ID)
		p := peerFacts{name: m.Name, self: m.ID == self, alive: alive}
		p.hosts, p.unknown = known.namesOfHost(m)
		machine, heard := known.machine(m.ID)
		p.machine, p.mute = machine, !heard
		f.peers = append(f.peers, p)
	}
}

// remember adds the remediations that were; only who may be acted on needs them.
func (f *facts) remember(v fsm.View) {
	for _, r := range v.RemediationHistory(0) {
		if r.Cluster == f.cluster {
			f.history = append(f.history, r)
		}
	}
	// A cancel holds a kube node only once the log takes the entry that ends it.
	for _, n := range f.nodes {
		i := slices.IndexFunc(f.history, func(r kubestate.Remediation) bool { return r.UID == n.UID })
		if i >= 0 && f.history[i].HeldByCancel() && v.Admits(noteOf(f.history[i])) == nil {
			n.cancelled = &f.history[i]
		}
	}
}

func (f *facts) find(match func(*nodeFacts) bool) *nodeFacts {
	if i := slices.IndexFunc(f.nodes, match); i >= 0 {
		return f.nodes[i]
	}
	return nil
}

// hosts returns the hosts of addresses that have one.
func hosts(addresses ...string) (out []string) {
	for _, a := range addresses {
		if host, _, err := net.SplitHostPort(a); err == nil && host != "" {
			out = append(out, host)
		}
	}
	return out
}

// overdue reports whether a Lease should have changed long since. What an earlier
// leader found out stands until the Lease is seen to change: its ages were its own.
func (f *facts) overdue(n *nodeFacts) bool {
	switch {
	case n.Leased && n.LeaseAge >= f.settings.Detection.LeaseAge, n.Late:
		return true
	case n.remediation != nil && n.remediation.BootID == n.BootID:
		return n.Renewed < 0
	}
	return false
}

// noneDue is a time within which there is another look anyway.
const noneDue = time.Hour

// due returns after what time the first kube node that no majority hears will be a
// suspect if nothing changes, once the API server has answered a question of then.
func (f *facts) due() time.Duration {
	first := noneDue
	if !f.api.Answers || !f.synced {
		return first
	}
	d := f.settings.Detection
	for _, n := range f.nodes {
		silence := d.Hold - n.unheardFor
		switch {
		case !n.unheard() || n.remediation != nil:
		case !f.overdue(n) && n.Leased:
			first = min(first, max(silence, d.LeaseAge-n.LeaseAge-f.api.Asked))
		case f.overdue(n) && silence > 0:
			first = min(first, silence)
		}
	}
	return first
}

// unheard reports whether a majority of the voters does not hear a kubelet.
func (n *nodeFacts) unheard() bool { return 2*n.silent > n.voters }

// majorityHeard reports whether a majority does.
func (n *nodeFacts) majorityHeard() bool { return 2*n.answers > n.voters }

// cutOff reports whether Kubernetes hears nothing of a kube node whose kubelet a
// majority of the peers hears. One that says itself that it is not Ready is not cut
// off.
func (n *nodeFacts) cutOff() bool { return n.Ready == kubestate.ReadyUnknown && n.majorityHeard() }

// notReadyLong reports whether Kubernetes itself has given a kube node up for long.
func (f *facts) notReadyLong(n *nodeFacts) bool {
	after := f.settings.Detection.NotReadyAfter
	return after > 0 && n.Ready != kubestate.ReadyTrue && n.NotReady >= after
}

// foundNotReady reports the same of a kube node under remediation by what the log has: a
// new leader may have counted for a moment only.
func (f *facts) foundNotReady(n *nodeFacts) bool {
	after := f.settings.Detection.NotReadyAfter
	return after > 0 && n.remediation != nil && n.recorded && n.Ready != kubestate.ReadyTrue &&
		n.record.Ready != kubestate.ReadyTrue && f.clock.Sub(n.record.Changed) >= after
}
