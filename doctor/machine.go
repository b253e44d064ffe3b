package doctor

import "time"

// Health is how a host and its peer do, and whom they reach.
type Health struct {
	Clock        Clock         `json:"clock"`
	Disk         Disk          `json:"disk"`
	Limits       Limits        `json:"limits"`
	Routes       []Route       `json:"routes,omitempty"`
	Services     []Service     `json:"services,omitempty"`
	Rights       []Rights      `json:"rights,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"`
	Build        Build         `json:"build"`
}

// Clock is how a host knows what time it is.
type Clock struct {
	Now int64 `json:"now,omitempty"` // Unix seconds of its wall clock when it looked
	// Asked: the kernel said whether something keeps its clock right.
	Asked        bool  `json:"asked,omitempty"`
	Synchronised bool  `json:"synchronised,omitempty"`
	SkewMS       int64 `json:"skew_ms,omitempty"`       // off the median of all peers; what a peer knows
	SkewLimitMS  int64 `json:"skew_limit_ms,omitempty"` // beyond which it does not lead
	// Hypervisor is what the host is a guest of, "" where none is seen: all clocks of a
	// guest that is frozen stand still.
	Hypervisor string `json:"hypervisor,omitempty"`
}

// Disk is where a host keeps its data directory. Sizes are in bytes, times in
// microseconds.
type Disk struct {
	Path       string `json:"path,omitempty"`
	Size       uint64 `json:"size,omitempty"`
	Free       uint64 `json:"free"`
	Low        uint64 `json:"low,omitempty"`   // free space that wants a person
	Floor      uint64 `json:"floor,omitempty"` // below it the peer does not lead
	Inodes     uint64 `json:"inodes,omitempty"`
	InodesFree uint64 `json:"inodes_free,omitempty"`

	Ballast int64 `json:"ballast,omitempty"`
	Dropped bool  `json:"dropped,omitempty"` // the disk was full: the log takes no entries
	Peer    bool  `json:"peer,omitempty"`    // a peer said the two above

	Probe Writes `json:"probe"` // of a small file, written and synced
	Log   Writes `json:"log"`   // of the peer's log, of late
	// HeartbeatUS is what election clocks are made of; see raft.timing.
	HeartbeatUS int64 `json:"heartbeat_us,omitempty"`
	// HungUS is how long a leader waits for its disk before it gives up.
	HungUS int64 `json:"hung_us,omitempty"`
}

// Writes are how long some writes took, each until the disk had it.
type Writes struct {
	Count    int   `json:"count"`
	MedianUS int64 `json:"median_us,omitempty"`
	MostUS   int64 `json:"most_us,omitempty"`
}

// Limits are what the kernel gives a peer's process, 0 for no limit. Memory is in
// bytes, CPU in thousandths.
type Limits struct {
	Group      string `json:"group,omitempty"` // the control group that limits most, as systemd names it
	Memory     uint64 `json:"memory,omitempty"`
	MemoryUsed uint64 `json:"memory_used,omitempty"`
	Tasks      uint64 `json:"tasks,omitempty"`
	TasksUsed  uint64 `json:"tasks_used,omitempty"`
	MilliCPU   uint64 `json:"milli_cpu,omitempty"`
	CPUWeight  uint64 `json:"cpu_weight,omitempty"` // 100 is the default; 0: not known
	Files      uint64 `json:"files,omitempty"`      // descriptors
	FilesUsed  uint64 `json:"files_used,omitempty"`
	// Needs are paths without one of which systemd does not start the peer.
	Needs []string `json:"needs,omitempty"`
}

// Route is how one peer reaches a port of another.
type Route struct {
	To       string `json:"to"`   // a peer's name
	What     string `json:"what"` // peers, gossip or the API
	Protocol string `json:"protocol"`
	Address  string `json:"address"`
	Error    string `json:"error,omitempty"` // why it does not
}

// Service is something that every peer needs to reach.
type Service struct {
	What    string `json:"what"` // Ironic, Keystone, an API server or a receiver of events
	Section string `json:"section"`
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
	// Inspect is of Ironic alone; nil: it was not asked, or the peer is of v0.2.0.
	Inspect *Inspect `json:"inspect,omitempty"`
	// Ramdisks are the endpoints of an Ironic that is handed what ramdisks send.
	Ramdisks []Ramdisks `json:"ramdisks,omitempty"`
}

// Ramdisks is what one endpoint says of documents that ramdisks send.
type Ramdisks struct {
	Option string `json:"option"` // that holds its URL
	URL    string `json:"url,omitempty"`
	Used   bool   `json:"used"` // documents go there
	// Refusal is why it takes none, "" if it does; Error is why that is not known.
	Refusal string `json:"refusal,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Rights are what a Kubernetes cluster lets a peer do.
type Rights struct {
	Cluster string   `json:"cluster"`
	Missing []string `json:"missing,omitempty"` // as in "patch nodes"
	Error   string   `json:"error,omitempty"`   // why that is not known
}

// Certificate is one that a host shows or trusts.
type Certificate struct {
	What      string `json:"what"`
	File      string `json:"file,omitempty"` // "": Trivet keeps it
	NotBefore int64  `json:"not_before"`     // Unix seconds
	NotAfter  int64  `json:"not_after"`
	// RenewAt is when the peer itself makes a new one; 0: an operator has to.
	RenewAt int64  `json:"renew_at,omitempty"`
	Error   string `json:"error,omitempty"` // why it cannot be read
}

// Build is what a peer runs.
type Build struct {
	Binary string `json:"binary,omitempty"`
	Log    int    `json:"log,omitempty"`    // version of the log that it knows
	InUse  int    `json:"in_use,omitempty"` // by the cluster
	// RunningFor is for how long all hosts have run without a restart of any, in
	// seconds; 0: one does not.
	RunningFor int64 `json:"running_for,omitempty"`
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
