package main

// upgradeMutants make an upgrade of one host after the other slower or blind.
func upgradeMutants() []Mutant {
	return []Mutant{
		{
			Name: "entries-are-not-held-for-who-is-away", Promise: "1", File: "app/core.go",
			Old:     "	patient.Follow(store)\n",
			New:     "",
			Package: "./internal/simtest", Run: "^TestReturnAfterAnAbsence$", Assertion: "late-return:",
		},
	}
}
