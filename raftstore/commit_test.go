package raftstore

import (
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
	req := raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, LeaderCommitIndex: 9, Entries: make([]*raft.Log, 1)}
	if err := net.AppendEntries("b", "b:1", &req, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
	if got := w.sent.LeaderCommitIndex; got != 8 {
		t.Errorf("tells-of-what-it-shows: with one entry after 7, and 9 committed, committed up to %d, want 8", got)
	}
}
