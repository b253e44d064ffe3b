package main

// raftMutants take out what mends raft's own traps.
func raftMutants() []Mutant {
	return []Mutant{
		{
			Name:      "hung-disk-not-muted",
			Promise:   "1",
			File:      "raftstore/leader/watchdog.go",
			Old:       "	w.disk.Mute(on)\n",
			New:       "	w.disk.Mute(false)\n",
			Package:   "./test/simtest",
			Run:       "^TestLosses$",
			Assertion: "a leader: not within",
		},
		{
			Name:      "snapshot-trap-not-mended",
			Promise:   "1",
			File:      "raftstore/aftersnapshot/aftersnapshot.go",
			Old:       "	mended.PrevLogEntry, mended.PrevLogTerm = 0, 0\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestFollowerRestartedAfterSnapshotCatchesUp$",
			Assertion: "caught-up-after-snapshot:",
		},
		{
			Name:      "clocks-told-to-another-leader-compared",
			Promise:   "leadership",
			File:      "raftstore/leader/skew.go",
			Old:       "!renewed.After(since) {\n",
			New:       "!renewed.After(min(since, 0)) {\n",
			Package:   "./raftstore/leader",
			Run:       "^TestSkewUnderAnotherLeader$",
			Assertion: "reports-to-another-leader:",
		},
		{
			Name:      "read-covers-what-is-applied-here",
			Promise:   "leadership",
			File:      "raftstore/read.go",
			Old:       "return min(l.store.raft.CommitIndex(), l.store.log.command.Load())",
			New:       "return l.store.View().Index()",
			Package:   "./raftstore",
			Run:       "^TestReadersWaitForWhatOthersMayHaveShown$",
			Assertion: "read-covers-what-is-committed:",
		},
	}
}

// termMutants let the term of a voter fall, or its vote change.
func termMutants() []Mutant {
	return []Mutant{
		{
			Name:      "heartbeats-of-any-term-next-to-the-main-loop",
			Promise:   "1",
			File:      "raftstore/termguard/termguard.go",
			Old:       "	if !ok || beat.Term != g.term.Load() {",
			New:       "	if !ok || beat.Term < 1 {",
			Package:   "./raftstore/termguard",
			Run:       "^TestTermRisesBetweenHeartbeats$",
			Assertion: "other-terms-wait:",
		},
		{
			Name:      "term-rises-during-a-heartbeat",
			Promise:   "1",
			File:      "raftstore/termguard/termguard.go",
			Old:       "	g.heartbeats.Lock() // until those that are being handled have ended\n	g.term.Store(term)\n	g.heartbeats.Unlock()",
			New:       "	g.term.Store(term)",
			Package:   "./raftstore/termguard",
			Run:       "^TestTermRisesBetweenHeartbeats$",
			Assertion: "heartbeat-before-term:",
		},
		{
			Name:      "term-lowered-on-disk",
			Promise:   "1",
			File:      "raftstore/termguard/termguard.go",
			Old:       "	case term < now:\n		return fmt.Errorf(\"the term would fall from %d to %d\", now, term)",
			New:       "	case term < now:\n		return g.StableStore.SetUint64([]byte(keyTerm), term)",
			Package:   "./raftstore/termguard",
			Run:       "^TestWhatTheGuardRefuses$",
			Assertion: "guarded-term:",
		},
		{
			Name:      "transfer-asked-for-again",
			Promise:   "1",
			File:      "raftstore/transfer/transfer.go",
			Old:       "	if a.term == term && a.open[to] > 0 {",
			New:       "	if a.term == term && a.open[to] > 1e6 {",
			Package:   "./test/simtest",
			Run:       "^TestTransferToAStuckVoterIsTriedOnce$",
			Assertion: "transfer 2 to a voter whose disk hangs",
		},
		{
			Name:      "second-vote-in-a-term",
			Promise:   "1",
			File:      "raftstore/termguard/termguard.go",
			Old:       "	if g.candidate != nil && !bytes.Equal(g.candidate, candidate) {",
			New:       "	if false && !bytes.Equal(g.candidate, candidate) {",
			Package:   "./raftstore/termguard",
			Run:       "^TestWhatTheGuardRefuses$",
			Assertion: "guarded-term:",
		},
		{
			Name:      "heartbeats-bypass-the-guard",
			Promise:   "1",
			File:      "raftstore/transport.go",
			Old:       "SetHeartbeatHandler(t.terms.Heartbeats(handle, t.consumer, t.stop))",
			New:       "SetHeartbeatHandler(handle)",
			Package:   "./test/simtest",
			Run:       "^TestTermsNeverFallOnSlowDisks$",
			Assertion: "the term would fall from",
		},
	}
}
