package main

// leaseClientMutants let a holder act when its lease may be another's.
func leaseClientMutants() []Mutant {
	const unit, guard = "./client/lease", "./lease/runner"
	return []Mutant{
		{
			Name: "deadline-counted-from-the-answer", Promise: "3", File: "client/lease/ask.go",
			Old:     "	r.sent = c.o.Now()\n	r.lease, r.err = q(ctx, c.servers[server])\n",
			New:     "	r.lease, r.err = q(ctx, c.servers[server])\n	r.sent = c.o.Now()\n",
			Package: unit, Run: "^TestDeadlineCountsFromBeforeTheQuestion$", Assertion: "counted from the answer",
		},
		{
			Name: "deadline-counted-from-the-repeat", Promise: "3", File: "client/lease/client.go",
			Old:     "			g.sent = began\n",
			New:     "			_ = began\n",
			Package: unit, Run: "^TestRepeatedRequestCountsFromTheFirst$", Assertion: "after the lease's end less a margin",
		},
		{
			Name: "deadline-without-a-margin", Promise: "3", File: "client/lease/client.go",
			Old:     "	return g.sent + left - c.o.Margin\n",
			New:     "	return g.sent + left\n",
			Package: unit, Run: "^TestDeadlineCountsFromBeforeTheQuestion$", Assertion: "want a margin before the end",
		},
		{
			Name: "clock-not-looked-at", Promise: "3", File: "client/lease/held.go",
			Old:     "	c.held.Valid() // ends the context if it is not\n",
			New:     "",
			Package: unit, Run: "^TestStoppedProcessLooksAtTheClock$", Assertion: "it goes on after its deadline",
		},
		{
			Name: "late-renewal-revives", Promise: "3", File: "client/lease/held.go",
			Old:     "	if !h.Valid() {\n		return\n	}\n	h.mu.Lock()\n	later := h.over == nil && ",
			New:     "	h.mu.Lock()\n	later := ",
			Package: unit, Run: "^TestLateRenewalRevivesNothing$", Assertion: "deadlines",
		},
		{
			Name: "release-does-not-wait", Promise: "3", File: "client/lease/held.go",
			Old:     "	defer h.settle(ctx)\n",
			New:     "",
			Package: unit, Run: "^TestReleaseWaitsForWhoIsTold$", Assertion: "release-waits",
		},
		{
			Name: "program-goes-on-without-its-runner", Promise: "3", File: "lease/runner/guard.go",
			Old:     "		return w.end(whyOrphaned, min(lease.Boottime(), w.deadline))\n",
			New:     "		return nil\n",
			Package: guard, Run: "^TestKilledRunner$", Assertion: "the program went on for",
		},
		{
			Name: "guard-asks-and-does-not-kill", Promise: "3", File: "lease/runner/guard.go",
			Old:     "	w.why, w.kill = why, since+w.grace\n",
			New:     "	w.why, w.kill = why, since+3*w.grace\n",
			Package: guard, Run: "^TestStoppedRunner$", Assertion: "after the lease's end",
		},
		{
			Name: "who-leaves-the-group-is-let-go", Promise: "3", File: "lease/runner/process.go",
			Old:     "unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)",
			New:     "unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)",
			Package: guard, Run: "^TestWhatAProgramLeavesBehind$", Assertion: "runs on",
		},
	}
}
