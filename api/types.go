package api

import "github.com/trivet-ha/trivet/fencing"

// Status is one peer's own view of the cluster; it needs no quorum.
type Status struct {
	Name      string        `json:"name"`
	ID        string        `json:"id"`
	Cluster   string        `json:"cluster_id"`
	Version   string        `json:"version"`
	Role      string        `json:"role"`
	Leader    string        `json:"leader,omitempty"` // name; empty if none is known
	Token     fencing.Token `json:"token"`            // of the newest leadership this peer knows
	Term      uint64        `json:"term"`
	Index     uint64        `json:"applied_index"`
	Ready     bool          `json:"ready"`
	Quorum    Quorum        `json:"quorum"`
	Refuses   string        `json:"refuses_to_lead,omitempty"`
	StaleMS   int64         `json:"stale_for_ms"` // since this peer last heard of a leader; 0 while it does
	Door      Door          `json:"door"`
	Warnings  []Warning     `json:"warnings,omitempty"`
	Directory string        `json:"data_dir"`
	// Observer and Maintenance are what an operator decided of this peer.
	Observer    bool `json:"observer,omitempty"`
	Maintenance bool `json:"maintenance,omitempty"`
}

// Quorum is the arithmetic of votes.
type Quorum struct {
	Voters   int  `json:"voters"`
	Live     int  `json:"live"`     // voters with a live session, as far as this peer knows
	Need     int  `json:"need"`     // a majority
	CanLose  int  `json:"can_lose"` // further voters, before writes stop
	HasWrite bool `json:"writable"`
}

// Warning is a value: what is wrong and what to do about it.
type Warning struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Peer is one line of the raft view.
type Peer struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader"`
	Self    bool   `json:"self"`
	Live    bool   `json:"live"`          // as far as the peer that answers knows
	Applied uint64 `json:"applied_index"` // as of its newest renewal
	SkewMS  int64  `json:"clock_skew_ms"`
	Gossip  string `json:"gossip"` // alive, suspect, dead, left, unknown
	Refuses string `json:"refuses_to_lead,omitempty"`
	// Observer and Maintenance are what an operator decided of it.
	Observer    bool `json:"observer,omitempty"`
	Maintenance bool `json:"maintenance,omitempty"`
}

// Member is one line of the replicated member table.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Address string `json:"address"`
	Gossip  string `json:"gossip_address"`
	API     string `json:"api_address"`
	Version int    `json:"log_version"`
	Binary  string `json:"version"`
	Joined  string `json:"joined_at"`
	// What an operator decided of it.
	Observer         bool   `json:"observer,omitempty"`
	Maintenance      bool   `json:"maintenance,omitempty"`
	MaintenanceSince string `json:"maintenance_since,omitempty"`
	// Differs are the keys of its configuration in which it is not as most are.
	Differs []string `json:"config_differs,omitempty"`
}

// Token is one join token; the secret is shown only when it is made.
type Token struct {
	ID        string `json:"id"`
	ExpiresIn string `json:"expires_in"`
	Secret    string `json:"token,omitempty"`
}

// NewToken asks for a join token.
type NewToken struct {
	TTL string `json:"ttl"` // a duration such as "24h"; empty for the default
}

// Setting is one replicated setting.
type Setting struct {
	Key   string        `json:"key"`
	Value string        `json:"value"`
	Token fencing.Token `json:"token,omitempty"` // of the write, in an answer to one
}

// Transfer asks for leadership to move.
type Transfer struct {
	To string `json:"to"` // name or ID; empty for the best one
}

// Leave asks this peer to leave the cluster for good.
type Leave struct {
	Force bool `json:"force"`
}

// Credentials are a new operator certificate; the key is not kept.
type Credentials struct {
	Name string `json:"name"`
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Check is the answer of the invariant check.
type Check struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
	Index   uint64 `json:"applied_index"`
	Hash    string `json:"hash"`
	Version int    `json:"cluster_version"`
}
