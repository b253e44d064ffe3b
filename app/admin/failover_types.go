package admin

import "github.com/trivet-ha/trivet/fsm/fencing"

// Failover is failover of kube nodes as the leader sees it.
type Failover struct {
	Leader   string          `json:"leader"`
	Mode     string          `json:"mode"`
	DryRun   bool            `json:"dry_run"`
	Clusters []KubeCluster   `json:"clusters"`
	Pauses   []FailoverPause `json:"pauses,omitempty"`
	Nodes    []KubeNode      `json:"nodes"`
	Peers    []PeerPlace     `json:"peers,omitempty"` // that run on kube nodes
}

// PeerPlace is the kube node on which a peer of Trivet runs.
type PeerPlace struct {
	Peer string `json:"peer"`
	Node string `json:"node"` // CLUSTER/NODE
	By   string `json:"by"`   // what both tell: boot ID, address, name, system UUID or machine ID
}

// KubeCluster is one cluster that is watched.
type KubeCluster struct {
	Name    string `json:"name"`
	Nodes   int    `json:"nodes"`
	Synced  bool   `json:"synced"`            // the leader has seen all of it
	Problem string `json:"problem,omitempty"` // why nothing is done in all of it
}

// FailoverPause is an operator's word that nothing shall be begun.
type FailoverPause struct {
	Cluster string `json:"cluster,omitempty"` // empty: all
	By      string `json:"by"`
	Reason  string `json:"reason,omitempty"`
	Since   string `json:"since,omitempty"`
	EndsIn  string `json:"ends_in,omitempty"` // empty: until it is resumed
}

// KubeNode is one kube node, what would be done about it, and why nothing is.
type KubeNode struct {
	Cluster      string `json:"cluster"`
	Name         string `json:"name"`
	UID          string `json:"uid"`
	BootID       string `json:"boot_id,omitempty"`
	Ready        string `json:"ready"` // True, False or Unknown
	ControlPlane bool   `json:"control_plane"`
	Kubelet      string `json:"kubelet,omitempty"` // host:port that every peer probes
	Changed      string `json:"changed_at,omitempty"`
	LeaseAgeMS   int64  `json:"lease_age_ms"` // since its Lease was last seen to change
	Votes
	HeldForDead bool         `json:"held_for_dead"` // all signs have lasted long enough
	Act         bool         `json:"act"`           // a remediation begins now
	Would       string       `json:"would"`         // what is, or would be, done
	Why         []string     `json:"why,omitempty"` // nothing is done
	Remediation *Remediation `json:"remediation,omitempty"`
}

// Votes are what the cluster's voters say of a kubelet.
type Votes struct {
	Silent  int `json:"votes_silent"` // voters that get no answer from it
	Answers int `json:"votes_answers"`
	Voters  int `json:"voters"`
}

// Remediation is what was done about one kube node that died.
type Remediation struct {
	ID           fencing.Token     `json:"id"`
	Cluster      string            `json:"cluster"`
	Node         string            `json:"node"`
	UID          string            `json:"uid"`
	BootID       string            `json:"boot_id"` // that it had when it died
	ControlPlane bool              `json:"control_plane"`
	State        string            `json:"state"`
	Open         bool              `json:"open"`
	Reason       string            `json:"reason"` // of the newest step
	Device       string            `json:"device,omitempty"`
	Attempts     int               `json:"power_off_attempts"`
	WasOff       bool              `json:"was_off"` // its pods may run elsewhere since
	Began        string            `json:"began_at"`
	Since        string            `json:"since"` // it is in State
	Steps        []RemediationStep `json:"steps"`
}

// RemediationStep is one line of its history.
type RemediationStep struct {
	State string        `json:"state"`
	Token fencing.Token `json:"token"`
	At    string        `json:"at"`
	Peer  string        `json:"peer,omitempty"`
	// Operator says that Peer is an operator.
	Operator bool   `json:"operator,omitempty"`
	Device   string `json:"device,omitempty"` // that switches the machine off
	Reason   string `json:"reason,omitempty"`
}

// Simulation says what would be done if a kube node died now. Nothing was
// changed to find that out.
type Simulation struct {
	Cluster string   `json:"cluster"`
	Node    string   `json:"node"`
	Peer    string   `json:"peer"`          // that would do it
	Mode    string   `json:"mode"`          // in which it is judged: safe, or noobaa, which fences nothing
	Would   bool     `json:"would"`         // it would be remediated
	Why     []string `json:"why,omitempty"` // it would not
	Devices []string `json:"devices"`       // in the order in which they are tried
	Delete  []string `json:"delete"`        // pods, as namespace/name
	Keep    []Kept   `json:"keep,omitempty"`
	Volumes []string `json:"volumes,omitempty"` // VolumeAttachments that are waited for, or left alone in mode noobaa
	Budgets []string `json:"exhausted_budgets,omitempty"`
	Problem string   `json:"problem,omitempty"` // why the rest is not known
}

// Kept is a pod that is not deleted.
type Kept struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

// FencePower is what the fence devices of one kube node say to one peer.
type FencePower struct {
	Peer    string        `json:"peer"`
	ID      string        `json:"id"`
	Error   string        `json:"error,omitempty"` // why it said nothing; the rest is empty then
	Cluster string        `json:"cluster"`
	Node    string        `json:"node"`
	Note    string        `json:"note,omitempty"` // what may make the answer incomplete
	Devices []DevicePower `json:"devices"`
}

// DevicePower is what one device says, or why it does not.
type DevicePower struct {
	Device string `json:"device"`
	Power  string `json:"power"`          // on, off or unknown
	Done   string `json:"done,omitempty"` // off or on, if that was ordered and taken
	Error  string `json:"error,omitempty"`
	Note   string `json:"note,omitempty"` // why its answer was compared with no UUID
	TookMS int64  `json:"took_ms"`
}

// Orders to a fence device.
const (
	PowerOff = "off"
	PowerOn  = "on"
)

// PowerOrder asks for the power of a machine to be switched by hand.
type PowerOrder struct {
	Power  string `json:"power"`            // off or on
	Device string `json:"device,omitempty"` // empty: the first that is configured
	// Confirm repeats the name of the kube node, so that an operator does not
	// switch off a machine by mistake.
	Confirm string `json:"confirm"`
}

// PauseOrder stops failover from beginning anything, or lets it again.
type PauseOrder struct {
	Cluster string `json:"cluster,omitempty"` // empty: all
	For     string `json:"for,omitempty"`     // a duration; empty: until it is resumed
	By      string `json:"by,omitempty"`      // who asks, besides what the connection proves
	Reason  string `json:"reason,omitempty"`
}

// ReleaseOrder lets a remediation that is stuck go on, or ends it.
type ReleaseOrder struct {
	To     string `json:"to"` // fencing or cancelled
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}
