package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// Lifecycle is what a Node says of itself besides Ready, of what Heeds names.
type Lifecycle struct {
	Unschedulable bool
	// Conditions are those that are True or Unknown, by type. One that is False or missing
	// says nothing.
	Conditions map[string]Observed
	// Stopping says that the kubelet reports a graceful shutdown in the condition Ready.
	Stopping bool
}

// Observed is the status of a condition as its writer knows it.
type Observed string

// The statuses that say something.
const (
	ObservedTrue    Observed = "True"
	ObservedUnknown Observed = "Unknown" // its writer cannot tell whether it is True
)

// conditionShutdown is what a kubelet that shuts down writes since Kubernetes 1.38, and
// administrators since 1.37 (KEP-5683, KEP-6249).
const conditionShutdown = "GracefulNodeShutdownInProgress"

// markKind says where on a Node a mark is.
type markKind uint8

const (
	onSpec       markKind = 0 // spec.unschedulable
	onCondition  markKind = 1
	onTaint      markKind = 2
	onLabel      markKind = 3
	onAnnotation markKind = 4
)

// lifecycleMark is one way in which a Node says that its machine is away on purpose.
type lifecycleMark struct {
	kind markKind
	key  string
	// value is what a label, a taint or an annotation must say; "": anything.
	value string
	// holds says that no command is given while the mark is there. The others say that
	// the machine may be restarted: of it only Ready counts, for not_ready_after.
	holds bool
	// restarts says that the machine comes back by itself: that it is off now is the dark
	// half of that.
	restarts bool
}

// lifecycleMarks are all that count, those that hold first. A candidate for deletion
// (DeletionCandidateOfClusterAutoscaler) is none: it goes on working.
func lifecycleMarks() []lifecycleMark {
	return []lifecycleMark{
		{onAnnotation, AnnotationOptOut, "true", true, false},                             // ours
		{onLabel, "remediation.medik8s.io/exclude-from-remediation", "true", true, false}, // medik8s common: pkg/labels
		// Cluster API: of a Machine, of any value; on a Node where it is synchronized.
		{onAnnotation, "cluster.x-k8s.io/skip-remediation", "", true, false},
		{onCondition, "MaintenanceInProgress", "", true, false}, // KEP-5683

		{onSpec, "spec.unschedulable", "", false, false},
		{onCondition, "MaintenancePlanned", "", false, false}, // KEP-5683
		{onCondition, "DrainInProgress", "", false, false},    // KEP-5683
		{onCondition, "Drained", "", false, false},            // KEP-5683
		{onCondition, conditionShutdown, "", false, false},
		{onTaint, "node.kubernetes.io/unschedulable", "", false, false},                   // of spec.unschedulable
		{onTaint, "medik8s.io/drain", "", false, false},                                   // medik8s node maintenance
		{onTaint, "ToBeDeletedByClusterAutoscaler", "", false, false},                     // cluster-autoscaler: pkg taints
		{onTaint, "karpenter.sh/disrupted", "", false, false},                             // Karpenter 1.0
		{onTaint, "karpenter.sh/disruption", "", false, false},                            // Karpenter 0.32 to 0.37
		{onAnnotation, "weave.works/kured-reboot-in-progress", "", false, true},           // kured: --annotate-nodes
		{onAnnotation, "machineconfiguration.openshift.io/state", "Working", false, true}, // machine-config-daemon
	}
}

// HeedsCondition reports whether a type of condition is a mark, and HeedsAnnotation
// whether the key of an annotation is: of a Node nothing else need be kept.
func HeedsCondition(of string) bool { return heeds(onCondition, of) }

// HeedsAnnotation is described at HeedsCondition.
func HeedsAnnotation(key string) bool { return heeds(onAnnotation, key) }

func heeds(kind markKind, key string) bool {
	return slices.ContainsFunc(lifecycleMarks(), func(m lifecycleMark) bool { return m.kind == kind && m.key == key })
}

// on says in a clause that the mark is on a Node, "" if it is not; certain is false of a
// condition whose writer cannot tell.
func (m lifecycleMark) on(n Node) (said string, certain bool) {
	fits := func(value string, there bool) bool { return there && (m.value == "" || value == m.value) }
	switch m.kind {
	case onSpec:
		if n.Unschedulable {
			return "it is cordoned", true
		}
	case onCondition:
		if status := n.Conditions[m.key]; status != "" {
			return fmt.Sprintf("its condition %s is %s", m.key, status), status == ObservedTrue
		}
	case onTaint:
		if slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == m.key && fits(t.Value, true) }) {
			return "it has the taint " + m.key, true
		}
	case onLabel:
		if value, there := n.Labels[m.key]; fits(value, there) {
			return fmt.Sprintf("its label %s is %s", m.key, value), true
		}
	case onAnnotation:
		if value, there := n.Annotations[m.key]; fits(value, there) {
			return fmt.Sprintf("its annotation %s is %.63s", m.key, value), true
		}
	}
	return "", false
}

// held returns the first mark of a Node that holds each command, "" if it has none.
func (n Node) held() string {
	for _, m := range lifecycleMarks() {
		if said, certain := m.on(n); m.holds && certain {
			return said
		}
	}
	return ""
}

// restarts returns the first mark of a Node whose machine comes back by itself, "" if it has
// none.
func (n Node) restarts() string {
	for _, m := range lifecycleMarks() {
		if said, _ := m.on(n); m.restarts && said != "" {
			return said
		}
	}
	return ""
}

// planned returns the first mark of a Node by which its machine may be restarted on
// purpose, "" if it has none. Of one that would hold, a doubt says that much.
func (n Node) planned() string {
	for _, m := range lifecycleMarks() {
		if said, certain := m.on(n); said != "" && !(m.holds && certain) {
			return said
		}
	}
	if n.Stopping {
		return "its kubelet reports that the machine is shutting down"
	}
	return ""
}

// shutsDown reports whether a Node says that its machine is being shut down. A condition
// that was left behind says nothing of one that is Ready.
func (n Node) shutsDown() bool {
	return n.Ready != kubestate.ReadyTrue && (n.Stopping || n.Conditions[conditionShutdown] != "")
}

// shutDown begins the reason of what is done about a machine that was shut down on
// purpose: it is not switched on again by failover.power_on.
const shutDown = "it was shut down on purpose"

// stayedOn begins that of a machine whose kubelet reported a shutdown, and that was on all the same when
// its remediation began: it hung, or restarts. failover.power_on switches it on as any other.
const stayedOn = "its kubelet reported a shutdown, and the machine stayed on"

const (
	// offLife is for how long a reading of the devices of a machine that shuts down counts.
	offLife = 5 * time.Second
	// darkFor is for how long all readings have to say off: a restart by a power cycle is
	// dark for up to 6 s.
	darkFor = 8 * time.Second
	// onLife is for how long a sign counts that such a machine is on.
	onLife = time.Minute
	// shutdownLimit is for how long such a machine is waited for while it is on. One that hangs in its
	// shutdown has to end, too.
	shutdownLimit = time.Hour
)

// Shutdown is what one leadership saw of a machine that is shut down on purpose.
type Shutdown struct {
	Said  bool          // its kubelet did, and has not been Ready since, nor has the machine booted
	Lasts time.Duration // since it was seen to say so
	// On says that it answered this leader lately, or that a device which asks it said on, and that it was not
	// dark for longer than a restart since.
	On bool
	// Off says that its kubelet fell silent and its devices, which were only asked, have
	// said off since, for darkFor. What a device remembers does not count.
	Off bool
	// Proven says that the kubelet had answered this leader meanwhile, so that its
	// silence is a sign, and that its Lease was not renewed since.
	Proven bool
	Heard  int // by how many peers, as they said when it was first read off
}

// shutdown is what a tracker keeps for Shutdown.
type shutdown struct {
	said     bool
	began    time.Time // when it was seen to say so
	followed bool      // a goroutine asks
	heard    bool      // its kubelet answered
	peers    int
	on, dark time.Time // newest sign that it is on, and first reading after it that said off; zero for none
	// first and newest are of readings that said off, in a row; zero for none.
	first, newest time.Time
}

// see notes what a Node says. A machine that is Ready, or has booted, does not shut down.
func (s *shutdown) see(before, now Node) {
	if now.Ready == kubestate.ReadyTrue || before.BootID != now.BootID {
		*s = shutdown{followed: s.followed}
	}
	if !s.said && now.shutsDown() {
		s.said, s.began = true, time.Now()
	}
}

// noteReading notes a reading that said off, when that many peers said that they hear the machine.
// One that comes long after the one before begins again: the machine may have run between.
func (s *shutdown) noteReading(now time.Time, peers int) {
	if s.first.IsZero() || now.Sub(s.newest) > offLife {
		s.first, s.peers = now, peers
	}
	if s.newest = now; s.dark.IsZero() {
		s.dark = now
	}
}

func (s *shutdown) state(now time.Time) Shutdown {
	off := s.said && !s.first.IsZero() && s.newest.Sub(s.first) >= darkFor && now.Sub(s.newest) <= offLife
	on := s.said && !off && !s.on.IsZero() && now.Sub(s.on) <= onLife &&
		(s.dark.IsZero() || now.Sub(s.dark) <= darkFor+offLife) // it may be the dark half of a restart
	out := Shutdown{Said: s.said, On: on, Off: off, Proven: off && s.heard, Heard: s.peers}
	if s.said {
		out.Lasts = now.Sub(s.began)
	}
	return out
}
