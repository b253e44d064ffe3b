package failover

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mode is what is done with a kube node that is held for dead.
type Mode string

// The modes.
const (
	ModeOff Mode = "" // nothing is watched
	// ModeSafe proves that the machine is off before anything is deleted.
	ModeSafe Mode = "safe"
	// ModeNooBaa does what NooBaa's own controller does: no fencing.
	ModeNooBaa Mode = "noobaa"
)

// Settings are what the operator decides; config has the defaults. The zero value watches
// nothing. It is a value, which is never changed once it was handed over.
type Settings struct {
	Mode Mode
	// DryRun says what would be done and does none of it.
	DryRun    bool
	Detection Detection
	Probe     Probe
	Guard     Guard
	Remedy    Remedy
	NooBaa    NooBaa
}

// Detection says when a kube node is held for dead.
type Detection struct {
	// LeaseAge is how long its Lease has not changed, on our own clock. A kubelet renews
	// every 10 s and tries again within 7 s.
	LeaseAge time.Duration
	// Hold is how long all signs must last together.
	Hold time.Duration
	// NotReadyAfter is how long Ready must have been anything but True for a kube
	// node whose kubelet still answers; 0 never.
	NotReadyAfter time.Duration
}

// Probe says how every peer asks the kubelets.
type Probe struct {
	Interval time.Duration // between two questions to one kubelet
	Timeout  time.Duration // for one answer
	Misses   int           // silent questions in a row that make an opinion
}

// Guard holds the bounds of what is done to one cluster.
type Guard struct {
	// MinHealthy is how many of a cluster's kube nodes must be healthy. A fraction is
	// rounded up.
	MinHealthy Share
	// MaxUnhealthy is how many may be unhealthy; the zero Share sets no bound. A
	// fraction is rounded down.
	MaxUnhealthy Share
	// StormCooldown is how long nothing is begun after more were unhealthy than
	// allowed.
	StormCooldown time.Duration
	// NodeRate is how often one kube node may be remedied within an hour.
	NodeRate int
	// HealthyDelay is how long a kube node must have been back before its marks are
	// taken away, and before it may be remedied again.
	HealthyDelay time.Duration
}

// Remedy says what is done to a dead kube node.
type Remedy struct {
	// PowerOn switches the machine on again once its volumes are detached.
	PowerOn bool
	// Pods says which pods are deleted; nil means all.
	Pods func(Pod) bool
	// Nodes says which kube nodes are looked after; nil means all.
	Nodes func(Node) bool
	// Retries is how often a request to Kubernetes is repeated.
	Retries int
	// RetryInterval is kept between two of them.
	RetryInterval time.Duration
	// Timeout bounds one of them.
	Timeout time.Duration
}

// NooBaa holds what only the compatible mode needs.
type NooBaa struct {
	Namespace string // of its pods
	// Exempt are prefixes of names of pods that are left alone.
	Exempt []string
}

// looksAfter reports whether the operator's selection contains a kube node.
func (r Remedy) looksAfter(n Node) bool { return r.Nodes == nil || r.Nodes(n) }

// Share is a number of kube nodes, or a part of all of them. The zero Share is
// no bound at all.
type Share struct {
	set     bool
	percent bool
	n       int
}

// maxShare bounds a share that is a number; no cluster has more nodes.
const maxShare = 5000

// ParseShare reads "51%", "2", or "" for no bound.
func ParseShare(text string) (Share, error) {
	if text == "" {
		return Share{}, nil
	}
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	most := maxShare
	if percent {
		most = 100
	}
	if err != nil || n < 0 || n > most {
		return Share{}, fmt.Errorf("%q is neither a number of kube nodes up to %d nor a part of them such as 51%%", text,
			maxShare)
	}
	return Share{set: true, percent: percent, n: n}, nil
}

// IsZero reports whether there is no bound.
func (s Share) IsZero() bool { return !s.set }

// AtLeast returns how many of all are at least the share.
func (s Share) AtLeast(all int) int {
	if s.percent {
		return (all*s.n + 99) / 100
	}
	return s.n
}

// AtMost returns how many of all are at most the share.
func (s Share) AtMost(all int) int {
	if s.percent {
		return all * s.n / 100
	}
	return s.n
}

// String returns the text that ParseShare reads.
func (s Share) String() string {
	switch {
	case !s.set:
		return ""
	case s.percent:
		return strconv.Itoa(s.n) + "%"
	}
	return strconv.Itoa(s.n)
}
