package raftguard

import "github.com/hashicorp/raft"

// AfterSnapshot works around a defect of hashicorp/raft 1.8 (its issues 86 and 697): a
// follower that restarts, or whose answer is lost, right after it installed a snapshot is
// asked for the entry before its first one, looks for it in its log instead of its snapshot,
// and gets the same snapshot again, for ever and without a pause. So does a former leader: raft
// leaves what it wrote alone, which was never committed, behind and around the snapshot's end, and
// compares with that. It returns req, or a copy that raft can answer if the newest snapshot of this
// follower covers the entry that req begins after. What a snapshot covers is committed, so there is
// nothing to compare, and nothing to store: previous entry 0 says so to raft, and the entries that
// are covered are left out. Those that follow raft compares with the log, term by term.
func AfterSnapshot(log raft.LogStore, snaps raft.SnapshotStore,
	req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	if req.PrevLogEntry == 0 || len(req.Entries) == 0 {
		return req
	}
	var before raft.Log
	if log.GetLog(req.PrevLogEntry, &before) == nil && before.Term == req.PrevLogTerm {
		return req
	}
	newest, err := snaps.List()
	if err != nil || len(newest) == 0 || newest[0].Index < req.PrevLogEntry ||
		newest[0].Index == req.PrevLogEntry && newest[0].Term != req.PrevLogTerm {
		return req // raft itself says what is missing
	}
	mended := *req
	for len(mended.Entries) > 0 && mended.Entries[0].Index <= newest[0].Index {
		mended.Entries = mended.Entries[1:]
	}
	mended.PrevLogEntry, mended.PrevLogTerm = 0, 0
	return &mended
}
