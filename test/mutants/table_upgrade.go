package main

// upgradeMutants make an upgrade of one host after the other slower or blind.
func upgradeMutants() []Mutant {
	return []Mutant{
		{
			Name: "older-workers-are-asked", Promise: "4", File: "fsm/view.go",
			Old:     "	case EventReapply, EventEnroll, EventAdopt:\n",
			New:     "	case EventEnroll, EventAdopt:\n",
			Package: "./inspector", Run: "^TestReapplyWaitsForTheLastUpgrade$", Assertion: "older-workers-are-asked:",
		},
		{
			Name: "handed-on-with-the-door-open", Promise: "2", File: "app/transfer.go",
			Old:     "	c.yield(ctx)\n	err := hand(ctx)\n",
			New:     "	err := hand(ctx)\n",
			Package: "./test/simtest", Run: "^TestLeadershipHandedOn$", Assertion: "handed-on:",
		},
		{
			Name: "maintenance-leaves-the-door-to-time", Promise: "2", File: "app/core.go",
			Old:     "		Yield:    c.yield,\n",
			New:     "",
			Package: "./test/simtest", Run: "^TestMaintenanceHandsTheDoorOn$", Assertion: "maintenance-hands-on:",
		},
		{
			Name: "entries-are-not-held-for-who-is-away", Promise: "1", File: "app/core.go",
			Old:     "	patient.Follow(store)\n",
			New:     "",
			Package: "./test/simtest", Run: "^TestReturnAfterAnAbsence$", Assertion: "late-return:",
		},
		{
			Name: "newer-snapshot-is-passed-over", Promise: "8", File: "raftstore/machine.go",
			Old:     "	if errors.Is(err, fsm.UnknownEntry) {\n",
			New:     "	if errors.Is(err, fsm.UnknownEntry) && m.halted {\n",
			Package: "./test/simtest", Run: "^TestNewerSnapshotIsNotPassedOver$", Assertion: "newer-snapshot-stops:",
		},
	}
}
