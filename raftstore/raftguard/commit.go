package raftguard

import "github.com/hashicorp/raft"

// ShownCommitted returns a leader's request such that a follower takes no entry for committed
// that the request does not show to be the leader's: those up to the last one that it brings, or
// compares. It is the rule for followers in figure 2 of Ongaro and Ousterhout, "In Search of an
// Understandable Consensus Algorithm", 2014. The follower applies it; the leader, too, for
// followers of v0.1.0, which lack it.
//
// hashicorp/raft 1.8 takes the end of the follower's own log instead. A new leader's first request
// may bring nothing, since it was made before the leader wrote its first entry, and yet tell of
// entries that were committed meanwhile. A follower whose log ends with entries of a former
// leader that were never committed then applies those, and its state parts from the others'.
func ShownCommitted(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	last := req.PrevLogEntry + uint64(len(req.Entries))
	if req.LeaderCommitIndex <= last {
		return req
	}
	bounded := *req
	bounded.LeaderCommitIndex = last
	return &bounded
}
