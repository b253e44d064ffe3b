package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Values of Status.Health.
const (
	Healthy  = "healthy"
	Degraded = "degraded"  // there is a leader, and a warning of severity degraded
	NoLeader = "no_leader" // this peer knows none
)

// Status is one peer's own view of the cluster; it needs no quorum. Its parts are one object
// of JSON.
type Status struct {
	Build
	Leadership
	Hearing
	Services
	Warnings  []Warning `json:"warnings,omitempty"`
	Directory string    `json:"data_dir"`
	Upgrade   *Upgrade  `json:"upgrade,omitempty"` // nil: it is finalized
	Waiting
	Decided
}

// Build says which peer it is, and of which program.
type Build struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Cluster string `json:"cluster_id"`
	Version string `json:"version"`
}

// Leadership is what a peer knows of the log and of who leads.
type Leadership struct {
	Health  string        `json:"health"`
	Role    string        `json:"role"`
	Leader  string        `json:"leader,omitempty"` // name; empty if none is known
	Token   fencing.Token `json:"token"`            // of the newest leadership this peer knows
	Term    uint64        `json:"term"`
	Index   uint64        `json:"applied_index"`
	Ready   bool          `json:"ready"`
	Quorum  Quorum        `json:"quorum"`
	Refuses string        `json:"refuses_to_lead,omitempty"`
	StaleMS int64         `json:"stale_for_ms"` // since this peer last heard of a leader; 0 while it does
	// LeaderSince is when the present leadership began; empty without a leader.
	LeaderSince string `json:"leader_since,omitempty"`
}

// Hearing is who is heard.
type Hearing struct {
	// HeardBy names the peer that hears who is live: the leader, or this peer
	// itself while it has no report of one. AsOfMS is the age of that where it is
	// more than 1.5 s, else 0.
	HeardBy string `json:"heard_by"`
	AsOfMS  int64  `json:"as_of_ms"`
	Peers   []Peer `json:"peers"` // by name
}

// Services are what the cluster does for others.
type Services struct {
	// Door is this host's; PXE is about all hosts.
	Door           Door            `json:"door"`
	PXE            PXEService      `json:"pxe"`
	FloatingIP     *AddressHolder  `json:"floating_ip,omitempty"` // nil: none is configured
	Introspections map[string]int  `json:"introspections"`        // by state; no entry for none
	Failover       *FailoverCounts `json:"failover,omitempty"`    // nil: off
	Leases         *LeaseCounts    `json:"leases,omitempty"`      // nil: off
}

// Upgrade is one that is not finalized: each host may go back to the version before.
type Upgrade struct {
	LogVersion int      `json:"log_version"` // in force
	Newest     int      `json:"newest"`      // that this peer knows
	HeldBack   []string `json:"held_back"`   // what waits for it
	// WaitsFor names the members that are not heard to know it.
	WaitsFor []string `json:"waits_for,omitempty"`
	// Since is when the last of all hosts was started; "" while one is waited for.
	Since string `json:"since,omitempty"`
}

// Decided is what an operator decided of a peer.
type Decided struct {
	Observer    bool `json:"observer,omitempty"`
	Maintenance bool `json:"maintenance,omitempty"`
}

// PXEService says on which host machines can boot over the network.
type PXEService struct {
	Guarded bool     `json:"guarded"`         // at least one host that answers filters PXE
	OpenOn  []string `json:"open_on"`         // names, as the hosts themselves say; never more than one
	Since   string   `json:"since,omitempty"` // it is open
	Why     string   `json:"why,omitempty"`   // it is closed everywhere
}

// AddressHolder says which host has the floating IP.
type AddressHolder struct {
	Address string `json:"address"`
	Holder  string `json:"holder,omitempty"` // name; empty: no host that answers has it
	Why     string `json:"why,omitempty"`    // no host has it
}

// FailoverCounts are the remediations of Kubernetes nodes.
type FailoverCounts struct {
	Mode   string `json:"mode"`
	Open   int    `json:"open"` // under way, those that are stuck among them
	Stuck  int    `json:"stuck"`
	Paused bool   `json:"paused"`
}

// LeaseCounts are the leases of other programs.
type LeaseCounts struct {
	Known int `json:"known"`
	Held  int `json:"held"`
}

// Quorum is the arithmetic of votes.
type Quorum struct {
	Voters   int  `json:"voters"`
	Live     int  `json:"live"`     // voters that are heard, see Status.HeardBy
	Need     int  `json:"need"`     // a majority
	CanLose  int  `json:"can_lose"` // further voters, before writes stop
	HasWrite bool `json:"writable"`
}

// Values of Warning.Severity.
const (
	SeverityDegraded = "degraded" // something is broken, or would be after one more loss
	SeverityAdvice   = "advice"
)

// Warning is a value: what is wrong and what to do about it.
type Warning struct {
	Code     string   `json:"code"`
	Severity string   `json:"severity"`
	Hosts    []string `json:"hosts,omitempty"` // names of the hosts that it is about; none: the cluster
	Text     string   `json:"text"`
	Remedy   string   `json:"remedy"`
}

// Peer is one line of the raft view.
type Peer struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version,omitempty"` // of the build
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader"`
	Self    bool   `json:"self"`
	Contact
	Applied uint64 `json:"applied_index"` // as of its newest renewal
	// Lag is how many entries of the leader's log it is not known to have; -1
	// while that is not known.
	Lag    int64  `json:"lag"`
	SkewMS int64  `json:"clock_skew_ms"`
	Gossip string `json:"gossip"` // alive, suspect, dead, left, unknown
	// WriteMS is how long a write to its log takes, the median of the newest; 0: it has not said.
	WriteMS float64 `json:"log_write_ms,omitempty"`
	Refuses string  `json:"refuses_to_lead,omitempty"`
	Decided
}

// Contact says whether a peer is heard, by the one that Status.HeardBy names.
type Contact struct {
	Live        bool   `json:"live"`                   // the newest contact was at most 1 s old
	ContactMS   int64  `json:"last_contact_ms"`        // age of the newest contact
	NeverHeard  bool   `json:"never_heard,omitempty"`  // ContactMS is the age of the process that did not hear it
	SilentSince string `json:"silent_since,omitempty"` // the newest contact; empty while live or never heard
	Unreachable bool   `json:"unreachable,omitempty"`  // the peer that answers does not reach it itself
}

// Wait is a state that can last, and what is waited for (docs/waits.md).
type Wait struct {
	Kind string `json:"kind"` // of docs/waits.md
	// Subject is what waits. Count is how many there are that wait for the same; Subject is the
	// one whose time is over first.
	Subject string `json:"subject"`
	Count   int    `json:"count"`
	For     string `json:"waits_for"`
	Since   string `json:"since,omitempty"` // RFC 3339; not there: not known
	Until   string `json:"until,omitempty"` // RFC 3339; not there: no time limit, or none that is known
	Then    string `json:"then"`            // what happens at Until, or why there is none
	Do      string `json:"do"`              // what an operator may do
	// Finding is the code of what the boot recorder found (docs/pxe.md#recorder), Warning that of
	// the warning that status shows meanwhile.
	Finding string `json:"finding,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// Waiting are the states that last now.
type Waiting struct {
	Waits []Wait `json:"waits,omitempty"`
	More  int    `json:"waits_not_listed,omitempty"` // those beyond what is listed
}

// Text says what waits for what, since when and until when.
func (w Wait) Text(now time.Time) string {
	var b strings.Builder
	b.WriteString(w.Subject)
	verb := " waits for "
	if w.Count > 1 {
		fmt.Fprintf(&b, " and %d more", w.Count-1)
		verb = " wait for "
	}
	b.WriteString(verb + w.For)
	if at, err := time.Parse(time.RFC3339, w.Since); err == nil {
		fmt.Fprintf(&b, "; since %s (%v)", w.Since, max(now.Sub(at), 0).Round(time.Second))
	}
	if at, err := time.Parse(time.RFC3339, w.Until); err == nil {
		left := "over"
		if d := at.Sub(now); d > 0 {
			left = fmt.Sprintf("in %v", d.Round(time.Second))
		}
		fmt.Fprintf(&b, "; until %s (%s): %s", w.Until, left, w.Then)
		return b.String()
	}
	b.WriteString("; " + w.Then)
	return b.String()
}
