package main

// houseMutants break the structure of the house.
func houseMutants() []Mutant {
	return []Mutant{
		{
			Name:      "imports-may-point-up",
			Promise:   "house",
			File:      "test/archtest/house.go",
			Old:       "case toLine > fromLine, toLine == fromLine",
			New:       "case toLine != fromLine, toLine == fromLine",
			Package:   "./test/archtest",
			Run:       "^TestRules$/^imports$/^up$",
			Assertion: "flagged lines [], want [3]",
		},
	}
}
