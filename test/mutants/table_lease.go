package main

// leaseMutants let a program that has lost its lease go on unnoticed.
func leaseMutants() []Mutant {
	const unit = "./fsm"
	return []Mutant{
		{
			Name: "written-under-any-token", Promise: "3", File: "fsm/lease_steps.go",
			Old:     "	case l.Token != g.token:\n",
			New:     "	case l.Token < g.token:\n",
			Package: unit, Run: "^TestValueIsWrittenUnderALeaseThatIsHeld$", Assertion: "want fenced",
		},
		{
			Name: "written-under-a-lease-that-is-over", Promise: "3", File: "fsm/lease_steps.go",
			Old:     "	case l.Holder == \"\" || l.Void:\n		res = refuse(Fenced, \"lease %s is over; acquire it again\", g.lease)\n",
			New:     "",
			Package: unit, Run: "^TestValueIsWrittenUnderALeaseThatIsHeld$", Assertion: "want fenced",
		},
		{
			Name: "version-not-compared", Promise: "3", File: "fsm/lease_value.go",
			Old:     "	if v.Version == c.Version {\n",
			New:     "	if v.Version >= c.Version {\n",
			Package: unit, Run: "^TestValueIsComparedWithItsVersion$", Assertion: "want fenced",
		},
		{
			Name: "members-outlive-their-leases", Promise: "3", File: "fsm/lease.go",
			Old:     "func (t *txn) freeLease(l Lease) Lease {\n	t.groups.leave(l.Name)\n",
			New:     "func (t *txn) freeLease(l Lease) Lease {\n",
			Package: unit, Run: "^TestGroupIsOfThoseWhoHoldTheirLeases$", Assertion: "which is over",
		},
		{
			Name: "members-outlive-a-takeover", Promise: "3", File: "fsm/lease.go",
			Old:     "	t.groups.leave(c.Name) // of a predecessor that is taken over\n",
			New:     "",
			Package: unit, Run: "^TestGroupIsOfThoseWhoHoldTheirLeases$", Assertion: "which is over",
		},
		{
			Name: "renewed-by-whoever-asks", Promise: "3", File: "fsm/lease_steps.go",
			Old:     "	case ok:\n		t.extendLease(&l)\n",
			New:     "	case ok || !s.Release && res.Code == Conflict:\n		t.extendLease(&l)\n",
			Package: unit, Run: "^TestLeaseProperty$", Assertion: "entry ", // the model differs, or the state contradicts itself: the draws decide
		},
		{
			Name: "requests-of-two-programs-are-one", Promise: "4", File: "lease/service.go",
			Old:     "requestID(\"acquire\", a.Name, a.Holder, a.Request,",
			New:     "requestID(\"acquire\", a.Request,",
			Package: "./lease", Run: "^TestLostAnswerIsAskedForAgain$", Assertion: "disk",
		},
		{
			Name: "an-old-answer-tells-what-was-left", Promise: "4", File: "lease/service.go",
			Old:     "		g, err := s.still(ctx, a, said.Token)\n		return g, kept || !res.Retried, err\n",
			New:     "		return Grant{Name: a.Name, Holder: a.Holder, Token: said.Token, Remaining: said.Remaining}, true, nil\n",
			Package: "./lease", Run: "^TestLostAnswerIsAskedForAgain$", Assertion: "repeated true",
		},
		{
			Name: "a-free-lease-is-always-news", Promise: "lease", File: "lease/read.go",
			Old:     "(l.Holder == \"\") != k.Free\n",
			New:     "l.Holder == \"\"\n",
			Package: "./api", Run: "^TestContractLines$", Assertion: "acquired:",
		},
	}
}

// leaseRequestMutants take the requests of two for one's, or one's for two's.
func leaseRequestMutants() []Mutant {
	return []Mutant{
		{
			Name: "a-peers-repeat-is-its-callers", Promise: "lease", File: "fsm/reqtable.go",
			Old:     "		res.Retried = res.Repeated && o.Client == h.Client // else it had joined another's\n",
			New:     "",
			Package: "./lease", Run: "^TestPeerAsksAgain$", Assertion: "repeated true",
		},
		{
			Name: "clients-keep-peers-out", Promise: "4", File: "fsm/reqtable.go",
			Old:     "MaxRequests && !t.crowdOut():\n",
			New:     "MaxRequests:\n",
			Package: "./fsm", Run: "^TestClientsAreCrowdedOutOfAFullTable$", Assertion: "a peer's own request",
		},
		{
			Name: "a-full-table-is-remembered", Promise: "lease", File: "fsm/reqtable.go",
			Old:     "t.peers.version2() {\n		client = \"\"\n",
			New:     "t.peers.version2() {\n",
			Package: "./fsm", Run: "^TestFullIsDecidedAnew$", Assertion: "decided-anew",
		},
		{
			Name: "a-late-entry-acts-after-its-refusal", Promise: "4", File: "fsm/reqtable.go",
			Old:     "		client = \"\"\n	}\n",
			New:     "		return\n	}\n",
			Package: "./fsm", Run: "^TestFullIsDecidedAnew$", Assertion: "a late entry of the same request",
		},
		{
			Name: "a-release-made-twice-is-another's-affair", Promise: "lease", File: "lease/steps.go",
			Old:     "err == nil && perhaps {",
			New:     "err == nil && !perhaps {",
			Package: "./lease", Run: "^TestLeaderIsLostWithTheAnswer$", Assertion: "want outcome unknown",
		},
		{
			Name: "steps-go-from-peer-to-peer", Promise: "lease", File: "lease/leaderrpc/answer.go",
			Old:     "!errors.Is(err, raftstore.ErrNotLeader) {",
			New:     "errors.Is(err, raftstore.ErrNoLeader) && path == \"\" {",
			Package: "./lease/leaderrpc", Run: "^TestOnlyALeaderAnswers$", Assertion: "under way: <nil>",
		},
		{
			Name: "writes-of-two-holders-are-one", Promise: "4", File: "lease/values.go",
			Old:     "requestID(\"put\", key, request, fmt.Sprint(when), string(data))",
			New:     "requestID(\"put\", key, request, fmt.Sprint(len(data)))",
			Package: "./lease", Run: "^TestAnotherWriteIsAnother$", Assertion: "and the last was",
		},
	}
}
