package main

// logMutants break what the log promises of commands.
func logMutants() []Mutant {
	return []Mutant{
		{
			Name:      "token-not-compared",
			Promise:   "3",
			File:      "fsm/state.go",
			Old:       "if tok := t.header.Token; !tok.IsZero() && tok != t.lead.Token {",
			New:       "if tok := t.header.Token; tok == 1 && tok != t.lead.Token {",
			Package:   "./test/simtest",
			Run:       "^TestLosses$",
			Assertion: "stale-token:",
		},
		{
			Name:    "acknowledged-before-commit",
			Promise: "1",
			File:    "raftstore/propose.go",
			Old: `	err = s.slots.await(ctx, func() raft.Future {
		f = s.raft.Apply(data, enqueueTimeout(ctx))
		return f
	})
`,
			New: `	f = s.raft.Apply(data, enqueueTimeout(ctx))
	wait := func() raft.Future { return f }
	if _, write := c.(fsm.PutSetting); write && h.Token.IsZero() {
		go func() { _ = s.slots.await(s.life, wait) }()
		return fsm.Result{}, nil
	}
	err = s.slots.await(ctx, wait)
`,
			Package:   "./test/simtest",
			Run:       "^TestLosses$",
			Assertion: "nothing-acknowledged-is-lost:",
		},
		{
			Name:      "older-peers-not-asked",
			Promise:   "8",
			File:      "raftstore/propose.go",
			Old:       "if err := s.View().Admits(c); err != nil {",
			New:       "if err := s.View().Admits(fsm.Probe{}); err != nil {",
			Package:   "./test/simtest",
			Run:       "^TestOlderPeersAreNotToldWhatTheyDoNotKnow$",
			Assertion: "unknown-is-not-proposed:",
		},
		{
			Name:    "requests-not-remembered",
			Promise: "1",
			File:    "fsm/state.go",
			Old: `	t.remember(row.kind, res)
`,
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestLostAnswerIsNotExecutedAgain$",
			Assertion: "applied-once:",
		},
		{
			Name:      "unknown-entry-skipped",
			Promise:   "8",
			File:      "raftstore/machine.go",
			Old:       "\tif res.Code == fsm.UnknownEntry {",
			New:       "\tif res.Code == fsm.UnknownEntry && m.halted {",
			Package:   "./test/simtest",
			Run:       "^TestUnknownEntryStopsThePeer$",
			Assertion: "every peer is told: not within",
		},
	}
}
