package main

// houseMutants break the structure of the house.
func houseMutants() []Mutant {
	return []Mutant{
		{
			Name:      "imports-may-point-up",
			Promise:   "house",
			File:      "internal/archtest/house.go",
			Old:       "case toLine > fromLine, toLine == fromLine",
			New:       "case toLine != fromLine, toLine == fromLine",
			Package:   "./internal/archtest",
			Run:       "^TestRules$/^imports$/^up$",
			Assertion: "flagged lines [], want [3]",
		},
	}
}
