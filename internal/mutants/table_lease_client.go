package main

// leaseClientMutants let a holder act when its lease may be another's.
func leaseClientMutants() []Mutant {
	const unit = "./lease/client"
	return []Mutant{
		{
			Name: "deadline-counted-from-the-answer", Promise: "3", File: "lease/client/ask.go",
			Old:     "	r.sent = c.o.Now()\n	r.lease, r.err = q(ctx, c.servers[server])\n",
			New:     "	r.lease, r.err = q(ctx, c.servers[server])\n	r.sent = c.o.Now()\n",
			Package: unit, Run: "^TestDeadlineCountsFromBeforeTheQuestion$", Assertion: "counted from the answer",
		},
		{
			Name: "deadline-without-a-margin", Promise: "3", File: "lease/client/client.go",
			Old:     "	return g.sent + left - c.o.Margin\n",
			New:     "	return g.sent + left\n",
			Package: unit, Run: "^TestDeadlineCountsFromBeforeTheQuestion$", Assertion: "want a margin before the end",
		},
		{
			Name: "clock-not-looked-at", Promise: "3", File: "lease/client/held.go",
			Old:     "	c.held.Valid() // ends the context if it is not\n",
			New:     "",
			Package: unit, Run: "^TestStoppedProcessLooksAtTheClock$", Assertion: "it goes on after its deadline",
		},
		{
			Name: "late-renewal-revives", Promise: "3", File: "lease/client/held.go",
			Old:     "	if !h.Valid() {\n		return\n	}\n	h.mu.Lock()\n	later := h.over == nil && ",
			New:     "	h.mu.Lock()\n	later := ",
			Package: unit, Run: "^TestLateRenewalRevivesNothing$", Assertion: "deadlines",
		},
	}
}
