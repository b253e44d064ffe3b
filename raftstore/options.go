package raftstore

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Sizes and counts of the log (docs/design.md#values).
const (
	maxAppendEntries = 512
	logCacheEntries  = 128 // entries may be large
	trailingLogs     = 1024
	// maxInFlight bounds the commands that wait for the log at once: with a
	// hung disk each holds a goroutine until the disk thaws.
	maxInFlight = 8192
)

// Timing holds the clocks of the election (docs/design.md#values). The zero value is not
// valid; use Normal, Fast or Slow.
type Timing struct {
	Heartbeat time.Duration // a follower calls an election when it heard nothing for this long (raftguard.Looks)
	Election  time.Duration
	Lease     time.Duration // below Heartbeat: an isolated leader ends before a follower calls an election
	Commit    time.Duration // an idle leader tells the commit index this often
}

// Normal is the timing for three hosts on a LAN, and Fast for hosts whose processors
// nothing else uses; Slow is for hosts far apart or short of CPU.
func Normal() Timing { return clocks(300 * time.Millisecond) }

// Fast is described at Normal.
func Fast() Timing { return clocks(200 * time.Millisecond) }

// Slow is described at Normal.
func Slow() Timing { return clocks(time.Second) }

// diskShare is the part of a succession that does not shrink with the clocks: ten writes
// of the disk of 20 ms each. Four come before a vote counts; the barrier, the Lead entry
// and the first client's entry have two each.
const diskShare = 10 * 20 * time.Millisecond

// Succession is how long after the loss of a leader another may be without its first
// client's entry. raft itself looks at its leader once in one to two heartbeat timeouts, so
// that the last follower has noticed after three; raftguard.Looks is sooner where it gets the
// processor. A vote that is split, or refused by a
// follower that still has its leader, costs an election timeout (docs/design.md#clocks).
func (t Timing) Succession() time.Duration { return 3*t.Heartbeat + t.Election + diskShare }

func clocks(heartbeat time.Duration) Timing {
	return Timing{Heartbeat: heartbeat, Election: heartbeat, Lease: heartbeat * 4 / 5, Commit: 20 * time.Millisecond}
}

// Storage is where one peer keeps its log. host.Open makes one on disk.
type Storage struct {
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	Close     func() error // called last by Store.Close; may be nil
}

// Transport is what raft needs to reach the other peers. Pre-vote and Close
// are listed because raft looks for them by type assertion: a wrapper around
// an interface without them would switch them off in silence.
type Transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Forwarder carries what a follower must ask the leader, and a new leader the voters. All
// calls may be made concurrently; payloads and answers are opaque to it.
type Forwarder interface {
	// Propose hands an encoded proposal to Store.ServeProposal of the leader.
	// An error that wraps logerr.ErrNotLeader, logerr.ErrNoLeader or logerr.ErrBusy promises that
	// nothing was appended; any other error means that the outcome is unknown.
	Propose(ctx context.Context, leader Server, payload []byte) ([]byte, error)
	// ReadIndex asks Store.ConfirmedIndex of the leader. A question changes
	// nothing, answered or not: every failure but the end of ctx wraps
	// logerr.ErrNotLeader, logerr.ErrNoLeader or logerr.ErrBusy.
	ReadIndex(ctx context.Context, leader Server) (uint64, error)
	// Age asks Store.ServeAge of a voter, which has proved that it is that server. The
	// answer is to this question and no earlier one.
	Age(ctx context.Context, voter Server, term uint64) (time.Duration, error)
}

// Options are the parts a Store is made of.
type Options struct {
	ID        string // this peer's server ID, new at every join
	Storage   Storage
	Transport Transport
	Forward   Forwarder
	Timing    Timing
	Logger    *slog.Logger
	// Wall is the wall clock, for display alone (docs/design.md#time).
	Wall func() time.Time
	// Monotonic is a clock that nothing but the passing of time moves, since any
	// beginning: host.Monotonic. Voters tell ages by it.
	Monotonic func() time.Duration
	// Fatal is told, once, of an entry this binary does not know. The log
	// stands still from then on; main exits 8 (promise 8). It must not block.
	Fatal func(error)
}

// Server is one member of the raft configuration.
type Server struct {
	ID      string `json:"id"`
	Address string `json:"address"` // ID@host:port
	Voter   bool   `json:"voter"`
}
