package main

// foundingMutants break what founding a cluster again must keep: recover and
// snapshot restore.
func foundingMutants() []Mutant {
	return []Mutant{
		{
			Name: "founding-ignores-the-clock", Promise: "3", File: "fsm/refound.go",
			Old:     "return max(known, clock*tokensPerMilli), nil",
			New:     "return known, nil",
			Package: "./fsm", Run: "^TestAnOlderBackupIsAboveARecovery$", Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name: "founding-adds-the-index-to-the-clock", Promise: "3", File: "fsm/refound.go",
			Old:     "	d.cluster.Base = first - r.Index\n",
			New:     "	d.cluster.Base = first\n",
			Package: "./fsm", Run: "^TestAnOlderBackupIsAboveARecovery$", Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name: "founding-forgets-unseen-entries", Promise: "3", File: "fsm/refound.go",
			Old:     "sum(d.cluster.Base, max(r.Index, d.position.Index), unseenEntries)",
			New:     "sum(d.cluster.Base, max(r.Index, d.position.Index), min(unseenEntries, 0))",
			Package: "./fsm", Run: "^TestTokensRiseThroughFoundings$", Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name: "local-index-missing-in-the-base", Promise: "3", File: "fsm/refound.go",
			Old:     "max(d.granted(), ",
			New:     "min(d.granted(), ",
			Package: "./fsm", Run: "^TestTokensRiseThroughFoundings$", Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name: "incarnation-of-one-history", Promise: "3", File: "fsm/refound.go",
			Old:     "max(d.cluster.Incarnation, l.cluster.Incarnation)",
			New:     "min(d.cluster.Incarnation, l.cluster.Incarnation)",
			Package: "./fsm", Run: "^TestAdoptGoesOnAboveBothHistories$", Assertion: "incarnation-above-both:",
		},
		{
			Name: "sessions-outlive-a-founding", Promise: "3", File: "fsm/refound.go",
			Old:     "		t.endSession(session.ID)\n",
			New:     "		_, _ = t, session\n",
			Package: "./fsm", Run: "^TestRefoundRaisesEveryTokenAndTakesAllGrants$", Assertion: "something granted is left",
		},
		{
			Name: "leadership-outlives-a-founding", Promise: "3", File: "fsm/refound.go",
			Old:     "	d.lead = Leadership{}\n",
			New:     "",
			Package: "./fsm", Run: "^TestRefoundRaisesEveryTokenAndTakesAllGrants$", Assertion: "something granted is left",
		},
		{
			Name: "doors-outlive-a-founding", Promise: "2", File: "fsm/refound.go",
			Old:     "	d.doors = d.doors.doubt(doors{})\n",
			New:     "",
			Package: "./fsm", Run: "^TestAfterRefoundDoorsAreUnknown$", Assertion: "refounded:",
		},
	}
}

// switchMutants break how a founding asks the other hosts and replaces the old state.
func switchMutants() []Mutant {
	return []Mutant{
		{
			Name: "founding-switches-before-the-sync", Promise: "5", File: "app/datadir/replace.go",
			Old:     "	if err := d.syncTree(tmp); err != nil {\n		return \"\", errors.Join(err, d.discard(tmp))\n	}\n	had, err",
			New:     "	had, err",
			Package: "./app/datadir", Run: "^TestFoundingAtEveryStep$", Assertion: "synced-before-the-switch:",
		},
		{
			Name: "founding-is-not-read-back", Promise: "5", File: "app/datadir/refound.go",
			Old:     "error { return host.VerifySeed(st, state.View()) })",
			New:     "error { _ = host.VerifySeed; return nil })",
			Package: "./app/datadir", Run: "^TestFoundingIsReadBack$", Assertion: "read-back: a founding with a damaged state succeeded",
		},
		{
			Name: "interrupted-switch-stays", Promise: "5", File: "app/datadir/datadir.go",
			Old:     "d.sweep(), d.finishSwitch())",
			New:     "d.sweep())",
			Package: "./app/datadir", Run: "^TestFoundingAtEveryStep$", Assertion: "wholly-old-or-new:",
		},
		{
			Name: "running-member-ignored", Promise: "1", File: "app/datadir/judge.go",
			Old:     "if a.Presence == cluster.Running {",
			New:     "if a.Presence == cluster.Running+1 {",
			Package: "./app/datadir", Run: "^TestFoundingAsksTheOthers$", Assertion: "others-are-asked:",
		},
		{
			Name: "silent-member-ignored", Promise: "1", File: "app/datadir/judge.go",
			Old:     "a.Presence == cluster.Silent && !named {",
			New:     "a.Presence == cluster.Running && !named {",
			Package: "./app/datadir", Run: "^TestFoundingAsksTheOthers$", Assertion: "others-are-asked:",
		},
		{
			Name: "repeated-recovery-refused", Promise: "1", File: "app/datadir/judge.go",
			Old:     "&& !r.gone(name) {",
			New:     "&& (true || !r.gone(name)) {",
			Package: "./app/datadir", Run: "^TestRecoverIsRepeatedAfterItsSwitch$", Assertion: "recover-is-repeated: as it was given:",
		},
		{
			Name: "gossip-answer-ignored", Promise: "1", File: "cluster/survey.go",
			Old:     "i >= 0 && out.Presence != Running {",
			New:     "i >= 0 && out.Presence > Running {",
			Package: "./cluster", Run: "^TestSurveyTellsWhoRuns$", Assertion: "members-are-asked:",
		},
		{
			Name: "snapshots-ordered-by-the-clock", Promise: "3", File: "raftstore/host/replay.go",
			Old:     "if newest == nil || cmp.Or(",
			New:     "if newest == nil || false && cmp.Or(",
			Package: "./raftstore/host", Run: "^TestReplayTakesTheLaterFoundingWhateverTheClock$", Assertion: "later-founding-counts:",
		},
		{
			Name: "older-snapshot-left", Promise: "3", File: "raftstore/host/found.go",
			Old:     "if h.snapshots != 1 || ",
			New:     "if ",
			Package: "./raftstore/host", Run: "^TestReplayTakesTheLaterFoundingWhateverTheClock$", Assertion: "only-one-snapshot:",
		},
	}
}
