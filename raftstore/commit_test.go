package raftstore

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// A leader tells no follower of more committed entries than the request brings or compares: a
// follower of v0.1.0 would apply what its own log has there.
func TestLeaderTellsOfWhatItShows(t *testing.T) {
	w := &wire{}
	gate := raftguard.NewGate(func() time.Duration { return 0 })
	net := newProvingTransport(w, Storage{Log: raft.NewInmemStore(), Snapshots: raft.NewInmemSnapshotStore()}, gate)
	req := raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, LeaderCommitIndex: 9, Entries: []*raft.Log{{}}}
	if err := net.AppendEntries("b", "b:1", &req, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
	if got := w.sent.LeaderCommitIndex; got != 8 {
		t.Errorf("tells-of-what-it-shows: with one entry after 7, and 9 committed, committed up to %d, want 8", got)
	}
}

// Raft goes on from the last entry that is left in its request: one that is too long is cut there,
// not in a copy, or entries that were never sent would count as stored. What the cut one tells of
// committed entries ends at what it still brings.
func TestRequestThatIsTooLongIsCutItself(t *testing.T) {
	w := &wire{}
	gate := raftguard.NewGate(func() time.Duration { return 0 })
	net := newProvingTransport(w, Storage{Log: raft.NewInmemStore(), Snapshots: raft.NewInmemSnapshotStore()}, gate)
	req := raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, LeaderCommitIndex: 90}
	for range 3 {
		req.Entries = append(req.Entries, &raft.Log{Data: make([]byte, raftguard.MaxRequestBytes/2+1)})
	}
	if err := net.AppendEntries("b", "b:1", &req, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
	if len(w.sent.Entries) != 1 || len(req.Entries) != 1 || w.sent.LeaderCommitIndex != 8 {
		t.Errorf("cut-itself: sent were %d entries, committed up to %d, and raft's request has %d; want 1, 8 and 1",
			len(w.sent.Entries), w.sent.LeaderCommitIndex, len(req.Entries))
	}
}

// A transfer that timed out may be repeated after whole rounds of replication: requests after
// which raft has no more for its follower. Neither heartbeats, full nor cut ones are any.
func TestRoundsOfReplication(t *testing.T) {
	const term, rounds = 3, 100
	entries := func(n, bytes int) []*raft.Log {
		out := make([]*raft.Log, n)
		for i := range out {
			out[i] = &raft.Log{Data: make([]byte, bytes)}
		}
		return out
	}
	for what, c := range map[string]struct {
		previous uint64
		entries  []*raft.Log
		again    bool
	}{
		"heartbeats":            {0, nil, false},
		"full requests":         {7, entries(maxAppendEntries, 1), false},
		"requests that are cut": {7, entries(2, raftguard.MaxRequestBytes), false},
		"requests of the rest":  {7, entries(maxAppendEntries-1, 1), true},
		"requests of nothing":   {7, nil, true},
	} {
		gate := raftguard.NewGate(func() time.Duration { return 0 })
		net := newProvingTransport(&wire{}, Storage{Log: raft.NewInmemStore(), Snapshots: raft.NewInmemSnapshotStore()}, gate)
		if err := net.transfers.Begun(term, "b", timedOut{}).Error(); err == nil {
			t.Fatal("the transfer did not time out")
		}
		for range rounds {
			req := raft.AppendEntriesRequest{Term: term, PrevLogEntry: c.previous, Entries: c.entries}
			if err := net.AppendEntries("b", "b:1", &req, new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
		}
		if err := net.transfers.Check(term, "b"); (err == nil) != c.again {
			t.Errorf("whole rounds: after %d %s: %v", rounds, what, err)
		}
	}
}

// timedOut is the future of a transfer whose target did not catch up.
type timedOut struct{}

func (timedOut) Error() error { return errors.New("leadership transfer timeout") }
