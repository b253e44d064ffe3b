package main

// restoreMutants break what a restore voids, and the log's clock.
func restoreMutants() []Mutant {
	return []Mutant{
		{
			Name:      "base-not-raised-on-restore",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "	d.cluster.Base = first - r.Index\n",
			New:       "	_ = first\n",
			Package:   "./fsm",
			Run:       "^TestAnOlderBackupIsAboveARecovery$",
			Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name: "lease-granted-before-its-old-end", Promise: "3", File: "fsm/refound.go",
			Old:     "		d.voidLease(l)\n",
			New:     "",
			Package: "./fsm", Run: "^TestFoundingLeavesNoTwoHolders$", Assertion: "two-holders:",
		},
		{
			Name: "restore-forgets-leases-of-the-log", Promise: "3", File: "fsm/refound.go",
			Old:     "		d.voidLease(other)\n",
			New:     "		_ = other\n",
			Package: "./fsm", Run: "^TestRestoreLeavesNoTwoHolders$", Assertion: "two-holders: local:",
		},
		{
			Name:      "restored-lease-still-valid",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "	l.Void, l.Client = true, \"\"\n",
			New:       "	l.Client = \"\"\n",
			Package:   "./test/simtest",
			Run:       "^TestRestoreVoidsWhatWasGranted$",
			Assertion: "restore-voids-leases:",
		},
		{
			Name:    "restored-join-token-still-valid",
			Promise: "3",
			File:    "fsm/refound.go",
			Old: `		d.joins.drop([]byte(j.ID))
		d.disarm(j.Expires, dueJoin, []byte(j.ID))
	}
	held := d.leases`,
			New: `		_ = j
	}
	held := d.leases`,
			Package:   "./test/simtest",
			Run:       "^TestRestoreVoidsWhatWasGranted$",
			Assertion: "restore-voids-join-tokens:",
		},
		{
			Name:      "clock-of-the-wall",
			Promise:   "3",
			File:      "raftstore/propose.go",
			Old:       "\th.Time, h.WallMillis = l.now(), ",
			New:       "\th.Time, h.WallMillis = l.now().Add(s.opts.Wall().Sub(time.Now())), ",
			Package:   "./test/simtest",
			Run:       "^TestWrongClocksEndNothingEarly$",
			Assertion: "no-early-deadline:",
		},
	}
}

// snapshotMutants write snapshots that cannot be read, and lose backups.
func snapshotMutants() []Mutant {
	return []Mutant{
		{
			Name:      "unreadable-snapshot-replaces-the-log",
			Promise:   "5",
			File:      "fsm/snapshot.go",
			Old:       "	if err := v.Check(); err != nil {\n		return 0,",
			New:       "	if err := v.Check(); false && err != nil {\n		return 0,",
			Package:   "./fsm",
			Run:       "^TestContradictoryStateIsNotWritten$",
			Assertion: "unreadable-snapshot:",
		},
		{
			Name:      "snapshot-refuses-what-the-log-accepted",
			Promise:   "5",
			File:      "fsm/invariants.go",
			Old:       "		m.API = \"\"\n",
			New:       "",
			Package:   "./fsm",
			Run:       "^TestAcceptedValuesReadBack$",
			Assertion: "accepted-reads-back:",
		},
		{
			Name: "backups-ordered-by-the-clock", Promise: "1",
			File:      "app/backup.go",
			Old:       "cmp.Or(cmp.Compare(b.index, other.index), b.taken.Compare(other.taken))",
			New:       "cmp.Or(b.taken.Compare(other.taken), cmp.Compare(b.index, other.index))",
			Package:   "./app",
			Run:       "^TestBackupUnderAClockAhead$",
			Assertion: "backup-clock-ahead:",
		},
	}
}
