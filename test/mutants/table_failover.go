package main

// failoverMutants break what the log promises of kube nodes that are switched off.
func failoverMutants() []Mutant {
	const unit = "./fsm"
	return []Mutant{
		{
			Name: "vote-survives-its-session", Promise: "6", File: "fsm/member_session.go",
			Old: "	t.dropVotesOf(id)\n", New: "	t.dropVotesOf(0)\n",
			Package: unit, Run: "^TestVotesEndWithTheirSessions$", Assertion: "outlives session",
		},
		{
			Name: "vote-survives-its-kube-node", Promise: "6", File: "fsm/kube_node.go",
			Old:     "	for _, b := range t.failover.votes.under(ballotPrefix(cluster, uid)) {\n",
			New:     "	for _, b := range t.failover.votes.under(ballotPrefix(cluster, \"\")) {\n",
			Package: unit, Run: "^TestVotesEndWithTheirSessions$", Assertion: "which is not known",
		},
		{
			Name: "second-remediation-of-a-kube-node", Promise: "6", File: "fsm/kube_remediation_verbs.go",
			Old:     "	case open:\n",
			New:     "	case open && paused:\n",
			Package: unit, Run: "^TestOneRemediationOfAKubeNode$", Assertion: "is open, and so are",
		},
		{
			Name: "remediation-of-the-same-name", Promise: "6", File: "fsm/kube_remediation_verbs.go",
			Old:     "		intent, open = t.failover.openName.get(kubeKey(c.Cluster, c.Node))\n",
			New:     "		intent, open = t.failover.openName.get(kubeKey(c.Cluster, c.UID))\n",
			Package: unit, Run: "^TestOneRemediationOfAKubeNode$", Assertion: "is open, and so are",
		},
		{
			Name: "step-from-another-state", Promise: "3", File: "fsm/kube_remediation_verbs.go",
			Old:     "	case r.State != c.From:\n",
			New:     "	case r.State.Ended():\n",
			Package: unit, Run: "^TestStepsAreTakenFromTheStateTheyKnow$", Assertion: "step-from: ",
		},
		{
			Name: "off-is-cancelled", Promise: "6", File: "fsm/kube_remediation.go",
			Old:     "		return !r.WasOff\n",
			New:     "		return r.State != RemOff\n",
			Package: unit, Run: "^TestOffIsNotCancelled$", Assertion: "off-cancelled: ",
		},
		{
			Name: "off-forgotten-by-the-next-step", Promise: "6", File: "fsm/kube_remediation.go",
			Old:     "	r.WasOff = r.WasOff || s.State == RemOff\n",
			New:     "	r.WasOff = s.State >= RemOff && s.State <= RemDetached\n",
			Package: unit, Run: "^TestOffIsNotCancelled$", Assertion: "off-cancelled: ",
		},
		{
			Name: "off-that-nobody-announced", Promise: "6", File: "fsm/kube_remediation.go",
			Old:     "		return r.Attempts > 0\n",
			New:     "		return r.Attempts >= 0\n",
			Package: unit, Run: "^TestPowerOffIsAnnounced$", Assertion: "nobody announced it",
		},
		{
			Name: "deleted-before-tainted", Promise: "6", File: "fsm/kube_remediation.go",
			Old:     "	RemOff:       remediationsIn(RemTainted, RemFencing,",
			New:     "	RemOff:       remediationsIn(RemTainted, RemDeleted, RemFencing,",
			Package: unit, Run: "^TestRemediationTablePairByPair$", Assertion: "remediation-table: ",
		},
		{
			Name: "restore-resumes-failover", Promise: "6", File: "fsm/refound.go",
			Old:     "	d.adoptPauses(l)\n",
			New:     "	d.adoptPauses(d)\n",
			Package: unit, Run: "^TestAdoptKeepsPauses$", Assertion: "adopted-pauses: ",
		},
		{
			Name: "hold-made-shorter", Promise: "6", File: "fsm/kube_failover.go",
			Old:     "	h.Until, h.Reason = max(h.Until, t.now().Add(c.For)), c.Reason\n",
			New:     "	h.Until, h.Reason = t.now().Add(c.For), c.Reason\n",
			Package: unit, Run: "^TestHoldsGrowAndEnd$", Assertion: "failover-held: ",
		},
	}
}

// simulateMutants say of a kube node what another mode would do.
func simulateMutants() []Mutant {
	return []Mutant{
		{
			Name: "simulated-in-the-mode-that-is-set", Promise: "failover", File: "failover/judge.go",
			Old:     "	if mode == ModeNooBaa {\n		return f.simulateNooBaa(n), nil\n",
			New:     "	if mode == ModeNooBaa && v.Index() == 0 {\n		return f.simulateNooBaa(n), nil\n",
			Package: "./failover", Run: "^TestStillAndReturned$", Assertion: "simulate-noobaa",
		},
		{
			Name: "simulated-though-paused", Promise: "failover", File: "failover/judge.go",
			Old:     "{\"paused\", byPause}, {\"selected\", bySelection}, {dryRunRail, byDryRun}} {\n",
			New:     "{\"selected\", bySelection}, {dryRunRail, byDryRun}} {\n",
			Package: "./failover", Run: "^TestSimulateNooBaa$", Assertion: "simulate-noobaa: paused",
		},
	}
}
