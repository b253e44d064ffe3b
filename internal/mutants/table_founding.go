package main

// foundingMutants break what founding a cluster again must keep: recover and
// snapshot restore.
func foundingMutants() []Mutant {
	return []Mutant{
		{
			Name:      "founding-ignores-the-clock",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "return max(known, clock*tokensPerMilli), nil",
			New:       "return known, nil",
			Package:   "./fsm",
			Run:       "^TestAnOlderBackupIsAboveARecovery$",
			Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name:      "founding-adds-the-index-to-the-clock",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "	d.cluster.Base = first - r.Index\n",
			New:       "	d.cluster.Base = first\n",
			Package:   "./fsm",
			Run:       "^TestAnOlderBackupIsAboveARecovery$",
			Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name:      "founding-forgets-unseen-entries",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "sum(d.cluster.Base, max(r.Index, d.position.Index), unseenEntries)",
			New:       "sum(d.cluster.Base, max(r.Index, d.position.Index), min(unseenEntries, 0))",
			Package:   "./fsm",
			Run:       "^TestTokensRiseThroughFoundings$",
			Assertion: "tokens-rise-through-foundings:",
		},
		{
			Name:      "local-index-missing-in-the-base",
			Promise:   "3",
			File:      "fsm/refound.go",
			Old:       "max(d.granted(), ",
			New:       "min(d.granted(), ",
			Package:   "./fsm",
			Run:       "^TestTokensRiseThroughFoundings$",
			Assertion: "tokens-rise-through-foundings:",
		},
	}
}
