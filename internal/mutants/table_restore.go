package main

// restoreMutants break what a restore voids, and the log's clock.
func restoreMutants() []Mutant {
	return []Mutant{
		{
			Name:      "base-not-raised-on-restore",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "d.cluster.Base = max(old, uint64(max(r.UnixMillis, 0)))",
			New:       "_ = old",
			Package:   "./internal/simtest",
			Run:       "^TestRestoreVoidsWhatWasGranted$",
			Assertion: "token-rises-through-restore:",
		},
		{
			Name:    "restored-lease-still-valid",
			Promise: "3",
			File:    "fsm/refound.go",
			Old: `		d.disarm(l.Expires, dueLease, []byte(l.Name))
	}
	d.leases, d.groups = newTable[Lease](), newGroups()`,
			New: `		_ = l
	}`,
			Package:   "./internal/simtest",
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
	for _, l`,
			New: `		_ = j
	}
	for _, l`,
			Package:   "./internal/simtest",
			Run:       "^TestRestoreVoidsWhatWasGranted$",
			Assertion: "restore-voids-join-tokens:",
		},
		{
			Name:      "clock-of-the-wall",
			Promise:   "3",
			File:      "raftstore/propose.go",
			Old:       "\th.Time, h.WallMillis = l.now(), ",
			New:       "\th.Time, h.WallMillis = l.now().Add(s.opts.Wall().Sub(time.Now())), ",
			Package:   "./internal/simtest",
			Run:       "^TestWrongClocksEndNothingEarly$",
			Assertion: "no-early-deadline:",
		},
	}
}
