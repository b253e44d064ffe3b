package raftstore

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/acks"
)

// A leader tells no follower of more committed entries than the request brings or compares: a
// follower of v0.1.0 would apply what its own log has there.
func TestLeaderTellsOfWhatItShows(t *testing.T) {
	w := &wire{}
	gate := acks.NewGate(func() time.Duration { return 0 })
	net := newProvingTransport(w, Storage{Log: raft.NewInmemStore(), Snapshots: raft.NewInmemSnapshotStore()}, gate)
	for what, c := range map[string]struct {
		previous, committed, want uint64
		entries                   int
	}{
		"nothing brought, more committed":  {7, 9, 7, 0},
		"nothing brought, all committed":   {7, 7, 7, 0},
		"one brought, more committed":      {7, 9, 8, 1},
		"two brought, one still uncertain": {7, 8, 8, 2},
		"a heartbeat":                      {0, 0, 0, 0},
	} {
		req := raft.AppendEntriesRequest{Term: 3, PrevLogEntry: c.previous, LeaderCommitIndex: c.committed, Entries: make([]*raft.Log, c.entries)}
		var resp raft.AppendEntriesResponse
		if err := net.AppendEntries("b", "b:1", &req, &resp); err != nil {
			t.Fatal(err)
		}
		if got := w.sent.LeaderCommitIndex; got != c.want {
			t.Errorf("tells-of-what-it-shows: %s: committed up to %d, want %d", what, got, c.want)
		}
		if req.LeaderCommitIndex != c.committed {
			t.Errorf("%s: raft's own request was changed to %d", what, req.LeaderCommitIndex)
		}
	}
}
