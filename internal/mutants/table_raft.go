package main

// raftMutants take out what mends raft's own traps.
func raftMutants() []Mutant {
	return []Mutant{
		{
			Name:      "hung-disk-not-muted",
			Promise:   "1",
			File:      "leader/watchdog.go",
			Old:       "	w.disk.Mute(on)\n",
			New:       "	w.disk.Mute(false)\n",
			Package:   "./internal/simtest",
			Run:       "^TestLosses$",
			Assertion: "a leader: not within",
		},
		{
			Name:      "snapshot-trap-not-mended",
			Promise:   "1",
			File:      "raftstore/transport.go",
			Old:       "	mended.PrevLogEntry, mended.PrevLogTerm = 0, 0\n",
			New:       "",
			Package:   "./internal/simtest",
			Run:       "^TestFollowerRestartedAfterSnapshotCatchesUp$",
			Assertion: "caught-up-after-snapshot:",
		},
		{
			Name:      "clocks-told-to-another-leader-compared",
			Promise:   "leadership",
			File:      "leader/skew.go",
			Old:       "!renewed.After(since) {\n",
			New:       "!renewed.After(min(since, 0)) {\n",
			Package:   "./leader",
			Run:       "^TestSkewUnderAnotherLeader$",
			Assertion: "reports-to-another-leader:",
		},
		{
			Name:      "read-covers-what-is-applied-here",
			Promise:   "leadership",
			File:      "raftstore/read.go",
			Old:       "return min(s.raft.CommitIndex(), s.log.command.Load())",
			New:       "return s.View().Index()",
			Package:   "./raftstore",
			Run:       "^TestReadersWaitForWhatOthersMayHaveShown$",
			Assertion: "read-covers-what-is-committed:",
		},
	}
}
