package raftguard

import (
	"testing"

	"github.com/hashicorp/raft"
)

// A follower whose log begins after a snapshot at 20 takes what the leader sends
// from anywhere before: what the snapshot covers is left out.
func TestEntriesThatASnapshotCovers(t *testing.T) {
	log, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	_, codec := raft.NewInmemTransport("h1")
	sink, err := snaps.Create(raft.SnapshotVersionMax, 20, 2, raft.Configuration{}, 1, codec)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.StoreLogs([]*raft.Log{{Index: 18, Term: 1}, {Index: 19, Term: 1}, {Index: 21, Term: 2}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		prev, term, last uint64 // the entries are those after prev, up to last
		mended           bool
		first            uint64 // of the entries that are left; 0: none
	}{
		"after an entry of the log":        {21, 2, 23, false, 22},
		"after the snapshot":               {20, 2, 23, true, 21},
		"after another entry of its index": {20, 3, 23, false, 21},
		"from within the snapshot":         {3, 1, 23, true, 21},
		"all within the snapshot":          {3, 1, 9, true, 0},
		"after what is missing":            {22, 2, 23, false, 23},
		"after one of a former leader":     {19, 2, 23, true, 21}, // which was never committed
		"after one that was committed":     {18, 1, 23, false, 19},
		"after another than the log's":     {21, 3, 23, false, 22}, // beyond the snapshot
	} {
		req := &raft.AppendEntriesRequest{PrevLogEntry: c.prev, PrevLogTerm: c.term}
		for i := c.prev + 1; i <= c.last; i++ {
			req.Entries = append(req.Entries, &raft.Log{Index: i, Term: 2})
		}
		got := AfterSnapshot(log, snaps, req)
		if mended := got.PrevLogEntry == 0; mended != c.mended {
			t.Errorf("%s: mended: %v", name, mended)
		}
		first := uint64(0)
		if len(got.Entries) > 0 {
			first = got.Entries[0].Index
		}
		if first != c.first || len(req.Entries) != int(c.last-c.prev) {
			t.Errorf("covered-entries: %s: the entries begin with %d, want %d", name, first, c.first)
		}
	}
}
