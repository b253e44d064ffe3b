package raftguard

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A request tells of no more committed entries than it brings or compares, and raft's own
// is not changed.
func TestCommittedIsWhatIsShown(t *testing.T) {
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
		req := raft.AppendEntriesRequest{PrevLogEntry: c.previous, LeaderCommitIndex: c.committed,
			Entries: make([]*raft.Log, c.entries)}
		if got := ShownCommitted(&req).LeaderCommitIndex; got != c.want || req.LeaderCommitIndex != c.committed {
			t.Errorf("tells-of-what-it-shows: %s: committed up to %d, want %d; raft's own request says %d", what, got, c.want,
				req.LeaderCommitIndex)
		}
	}
}

// Raft asks the configuration whether a candidate is a voter: it is told of none for a vote,
// and of some voter for a pre-vote, where the configuration does not know the candidate as one.
func TestCandidatesAreJudgedByTheirLogs(t *testing.T) {
	known := raft.Configuration{Servers: []raft.Server{{ID: "learner", Suffrage: raft.Nonvoter}, {ID: "a"}, {ID: "b"}}}
	vote := func(id string) *raft.RequestVoteRequest {
		return &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte(id)}, Term: 3, LastLogIndex: 9}
	}
	preVote := func(id string) *raft.RequestPreVoteRequest {
		return &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte(id)}, Term: 3, LastLogIndex: 9}
	}
	anonymous := vote("")
	anonymous.ID = nil
	entries := &raft.AppendEntriesRequest{Term: 3}
	for what, c := range map[string]struct {
		known      raft.Configuration
		asks, want any
	}{
		"a voter's vote":                   {known, vote("b"), vote("b")},
		"a stranger's vote":                {known, vote("c"), anonymous},
		"a non-voter's vote":               {known, vote("learner"), anonymous},
		"a voter's pre-vote":               {known, preVote("b"), preVote("b")},
		"a stranger's pre-vote":            {known, preVote("c"), preVote("a")},
		"a non-voter's pre-vote":           {known, preVote("learner"), preVote("a")},
		"a pre-vote where nobody is known": {raft.Configuration{}, preVote("c"), preVote("c")},
		"another request":                  {known, entries, entries},
	} {
		if got := JudgedByLog(c.asks, c.known); !reflect.DeepEqual(got, c.want) {
			t.Errorf("judged-by-its-log: %s: raft is asked for %+v, want %+v", what, got, c.want)
		}
	}
}

// A proof counts the peers that acknowledged, in its term, a request that was sent after it
// began, by the clock or by the order of sends.
func TestCountIsOfLaterSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acks := NewAcks()
		early := acks.Sending(5)
		time.Sleep(time.Second)
		mark, t0 := acks.Mark(), time.Now()
		late, other := acks.Sending(5), acks.Sending(4)
		peers := []raft.ServerID{"b", "c"}
		for _, step := range []struct {
			what string
			from raft.ServerID
			ack  Ack
			want int
		}{
			{"a request that was sent before", "b", early, 0},
			{"one of another term", "c", other, 0},
			{"a later one", "b", late, 1},
			{"one of a peer that does not count", "d", late, 1},
			{"an earlier one, whose answer came later", "b", early, 1},
		} {
			acks.Answered(step.from, step.ack)
			if got, _ := acks.Count(peers, 5, t0, mark); got != step.want {
				t.Errorf("counts-later-sends: with %s %d of 2 count, want %d", step.what, got, step.want)
			}
		}
	})
}
