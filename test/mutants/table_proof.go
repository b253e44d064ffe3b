package main

// proofMutants break the proof of leadership and what follows it.
func proofMutants() []Mutant {
	return []Mutant{
		{
			Name:    "duties-before-barrier",
			Promise: "3",
			File:    "raftstore/lead.go",
			Old: `	if err := s.barrier(ctx); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
`,
			New: `	time.Sleep(300 * time.Millisecond)
	if s.raft.State() == raft.Leader {
		early := &Leadership{store: s, token: fencing.At(s.View().Base(), s.raft.LastIndex()+1), term: s.raft.CurrentTerm(), clock: s.View().Now(), clockAt: time.Now()}
		go func() { _, _ = s.append(ctx, early, fsm.Header{}, lead) }()
		s.leading.Store(early)
		return early, nil
	}
	if err := s.barrier(ctx); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
`,
			Package:   "./test/simtest",
			Run:       "^TestLosses$",
			Assertion: "barrier-first:",
		},
		{
			Name:    "confirm-is-verifyleader-stopped",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `	mark := l.store.net.acks.Mark()
`,
			New: `	mark := l.store.net.acks.Mark()
	if ctx != nil {
		return l.store.slots.await(ctx, func() raft.Future { return l.store.raft.VerifyLeader() })
	}
`,
			Package:   "./test/simtest",
			Run:       "^TestStoppedLeaderIsNotConfirmed$",
			Assertion: "confirm-proves:",
		},
		{
			Name:    "confirm-is-verifyleader-non-voter",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `	mark := l.store.net.acks.Mark()
`,
			New: `	mark := l.store.net.acks.Mark()
	if ctx != nil {
		return l.store.slots.await(ctx, func() raft.Future { return l.store.raft.VerifyLeader() })
	}
`,
			Package:   "./test/simtest",
			Run:       "^TestNonVoterDoesNotConfirm$",
			Assertion: "confirm-proves:",
		},
		{
			Name:    "confirm-not-bound-to-its-term",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `	mark := l.store.net.acks.Mark()
`,
			New: `	l = &Leadership{store: l.store, term: l.store.raft.CurrentTerm()}
	mark := l.store.net.acks.Mark()
`,
			Package:   "./test/simtest",
			Run:       "^TestConfirmIsBoundToItsTerm$",
			Assertion: "confirm-bound-to-term:",
		},
	}
}
