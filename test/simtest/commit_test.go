package simtest

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// TestEntriesOfAFormerLeaderAreNotApplied: a follower's log ends with entries of a leader that
// was lost before they were committed. The first request of the next leader was made before it
// wrote an entry, and tells of what it has committed meanwhile.
func TestEntriesOfAFormerLeaderAreNotApplied(t *testing.T) {
	simulateStores(t, 3, 71, func(t *testing.T, b *bare) {
		leader := b.elected(names(b.Peers)...)
		b.lead(leader)
		follower := b.Others(b.Peer(leader))[0]
		last := b.stores[leader].Stats().LastIndex
		b.Until(successionLimit, "the follower has all entries",
			func() bool { return b.stores[follower.Name].Stats().LastIndex == last })
		for _, other := range b.Others(follower) {
			b.Net.Cut(other.Name, follower.Name)
		}
		store, from := b.stores[follower.Name], b.Net.Endpoint("x", "x:1", NewGate())
		defer from.sever()
		set := func(term, index uint64, value string) *raft.Log {
			data, err := fsm.Encode(fsm.Header{}, settings.PutSetting{Key: "k", Value: value})
			b.must(err)
			return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: data}
		}
		term, first := store.Stats().Term, last+1
		before := raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader),
				Addr: []byte(b.Peer(leader).address())},
			PrevLogEntry: last, PrevLogTerm: term,
		}
		request := func(term, committed uint64, entries ...*raft.Log) {
			t.Helper()
			req := before
			req.Term, req.LeaderCommitIndex, req.Entries = term, committed, entries
			var answer raft.AppendEntriesResponse
			if err := from.AppendEntries("", raft.ServerAddress(follower.address()), &req, &answer); err != nil ||
				!answer.Success {
				t.Fatalf("entries of term %d: %+v, %v", term, answer, err)
			}
		}
		request(term+1, last, set(term+1, first, "former"), set(term+1, first+1, "former"))
		request(term+2, first+1)
		request(term+2, first+1, set(term+2, first, "next"), set(term+2, first+1, "next"))
		b.Until(successionLimit, "the follower applies what is committed",
			func() bool { return store.View().Index() > first })
		if got, _ := store.View().Setting("k"); got.Value != "next" {
			t.Errorf("only-the-leaders-entries: the follower has applied %q, which was never committed", got.Value)
		}
	})
}
