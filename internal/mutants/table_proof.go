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
			New: `	if s.raft.State() == raft.Leader {
		token := fencing.At(s.View().Base(), s.raft.LastIndex()+1)
		early := &Leadership{store: s, token: token, term: s.raft.CurrentTerm(), clock: s.View().Now(), clockAt: time.Now()}
		go func() { _, _ = s.append(ctx, early, fsm.Header{}, lead) }()
		s.leading.Store(early)
		return early, nil
	}
	if err := s.barrier(ctx); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
`,
			Package:   "./internal/simtest",
			Run:       "^TestLosses$",
			Assertion: "barrier-first:",
		},
		{
			Name:    "confirm-is-verifyleader-stopped",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `	mark := l.store.net.acks.mark()
`,
			New: `	mark := l.store.net.acks.mark()
	if ctx != nil {
		return l.store.await(ctx, func() raft.Future { return l.store.raft.VerifyLeader() })
	}
`,
			Package:   "./internal/simtest",
			Run:       "^TestStoppedLeaderIsNotConfirmed$",
			Assertion: "confirm-proves:",
		},
		{
			Name:    "confirm-is-verifyleader-non-voter",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `	mark := l.store.net.acks.mark()
`,
			New: `	mark := l.store.net.acks.mark()
	if ctx != nil {
		return l.store.await(ctx, func() raft.Future { return l.store.raft.VerifyLeader() })
	}
`,
			Package:   "./internal/simtest",
			Run:       "^TestNonVoterDoesNotConfirm$",
			Assertion: "confirm-proves:",
		},
		{
			Name:    "confirm-not-bound-to-its-term",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `l.store.raft.CurrentTerm() != l.term {
		return errLeadershipEnded
	}
	return nil
}

// Confirm proves that no later leader was elected before t0: a majority of the
// voters acknowledged, in this handle's term, an AppendEntries that was sent
// after t0, and this peer still leads in that term afterwards (design §5.2).
// VerifyLeader proves less: it counts answers to heartbeats that were sent
// before the call, and those of non-voters. t0 is read from time.Now before
// the call.
func (l *Leadership) Confirm(ctx context.Context, t0 time.Time) error {
	mark := l.store.net.acks.mark()
	for {
		if err := l.leads(); err != nil {
			return err
		}
		others, need := l.store.quorum()
		got, changed := l.store.net.acks.count(others, l.term, t0, mark)`,
			New: `l.term == 0 {
		return errLeadershipEnded
	}
	return nil
}

// Confirm proves that no later leader was elected before t0: a majority of the
// voters acknowledged, in this handle's term, an AppendEntries that was sent
// after t0, and this peer still leads in that term afterwards (design §5.2).
// VerifyLeader proves less: it counts answers to heartbeats that were sent
// before the call, and those of non-voters. t0 is read from time.Now before
// the call.
func (l *Leadership) Confirm(ctx context.Context, t0 time.Time) error {
	mark := l.store.net.acks.mark()
	for {
		if err := l.leads(); err != nil {
			return err
		}
		others, need := l.store.quorum()
		got, changed := l.store.net.acks.count(others, l.store.raft.CurrentTerm(), t0, mark)`,
			Package:   "./internal/simtest",
			Run:       "^TestConfirmIsBoundToItsTerm$",
			Assertion: "confirm-bound-to-term:",
		},
	}
}
