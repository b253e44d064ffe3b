package main

// table lists every mutant. A row belongs to the promise it breaks (design
// §2) and names the assertion that must notice; see CONTRIBUTING.md for how
// to add one. A test of this package checks that every row still fits the
// source, so a row is renewed in the change that moves its text.
func table() []Mutant {
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
