package raftguard

import (
	"slices"

	"github.com/hashicorp/raft"
)

// JudgedByLog returns a request of a candidate for a vote or a pre-vote such that the terms and
// the logs decide, and not whether known, the configuration of this peer, names the candidate
// as a voter. Other requests are returned as they are. A caller has authenticated the candidate.
//
// hashicorp/raft 1.8 refuses who is not a voter there. A voter that lags, and has not heard of
// a promotion, then refuses the promoted peer, and its own log is too old for it to lead: where
// its vote is needed the cluster stands still for good. Raft has servers vote without a look at
// their configuration, for this reason (section 4.1 of Ongaro's dissertation, "Consensus:
// bridging theory and practice", 2014). It is safe: who is elected is decided by the
// candidate's configuration. A voter that hears a leader refuses all the same.
func JudgedByLog(command any, known raft.Configuration) any {
	voters := slices.DeleteFunc(known.Clone().Servers, func(s raft.Server) bool { return s.Suffrage != raft.Voter })
	votes := func(id []byte) bool {
		return slices.ContainsFunc(voters, func(s raft.Server) bool { return string(s.ID) == string(id) })
	}
	switch req := command.(type) {
	case *raft.RequestVoteRequest:
		if !votes(req.ID) {
			judged := *req
			judged.ID = nil // raft then asks nothing of the configuration
			return &judged
		}
	case *raft.RequestPreVoteRequest:
		if !votes(req.ID) && len(voters) > 0 {
			judged := *req
			judged.ID = []byte(voters[0].ID) // raft uses it for these checks alone
			return &judged
		}
	}
	return command
}
