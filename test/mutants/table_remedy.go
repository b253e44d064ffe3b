package main

// remedyMutants let a remediation do what it has no proof for, or do it to
// somebody else.
func remedyMutants() []Mutant {
	const unit, fence, move, site = "./failover", "failover/remedy_fence.go", "failover/remedy_move.go", "failover/cluster_controller.go"
	return []Mutant{
		{
			Name: "no-fencing", Promise: "failover", File: fence,
			Old:     "	seen, err := r.target.takePower(ctx, m, d)\n",
			New:     "	seen, err := evidence{at: time.Now(), node: n}, error(nil)\n",
			Package: unit, Run: "^TestPowerLossMovesTheWork$", Assertion: "violation: off was logged of n1 without a power-off command",
		},
		{
			Name: "no-second-look-at-off", Promise: "failover", File: fence,
			Old:     "			if s, p, err = t.confirmOff(ctx, limited, m, d); err == nil && p == PowerOff {\n",
			New:     "			s.at = time.Now()\n			if s.node, err = t.look(ctx, m); err == nil {\n",
			Package: unit, Run: "^TestPowerLossMovesTheWork$", Assertion: "violation: off was logged of n1 after 1 looks at it",
		},
		{
			Name: "devices-are-never-contradicted", Promise: "failover", File: fence,
			Old:     "	case alive != \"\":\n",
			New:     "	case alive == \"never\":\n",
			Package: unit, Run: "^TestBadDays$/^the_device_lies", Assertion: "violation: off was logged of n1, whose kubelet runs",
		},
		{
			Name: "pods-by-name-alone", Promise: "failover", File: move,
			Old:     "		return s.cluster.DeletePod(ctx, p)\n",
			New:     "		p.UID, p.ResourceVersion = \"\", \"\"\n		return s.cluster.DeletePod(ctx, p)\n",
			Package: unit, Run: "^TestBadDays$/^the_pod_is_made_anew", Assertion: "pods were deleted that had only the name of the one that was read",
		},
		{
			Name: "no-look-before-the-cordon", Promise: "failover", File: fence,
			Old:     "	n, done, err := r.recheck(ctx, m)\n",
			New:     "	n, err := r.target.read(ctx, m)\n	done := false\n",
			Package: unit, Run: "^TestBadDays$/^its_network_is_back_at_the_moment", Assertion: "a kube node that was back was acted on",
		},
		{
			Name: "power-not-read-before-deletions", Promise: "failover", File: move,
			Old:     "	case power != PowerOff:\n",
			New:     "	case power == PowerUnknown:\n",
			Package: unit, Run: "^TestBadDays$/^switched_on_after_the_taint", Assertion: "violation: deleted pod s-1 though n1 has had power",
		},
		{
			Name: "leadership-not-proven-before-writes", Promise: "failover", File: site,
			Old:     "	within, cancel, err := leader.Confirmed(ctx, s.a, proofLife)\n",
			New:     "	within, cancel := context.WithCancel(ctx)\n	var err error\n	_ = leader.Confirmed\n",
			Package: unit, Run: "^TestDeposedLeaderWritesNothing$", Assertion: "deposed:",
		},
		{
			Name: "budgets-are-not-asked", Promise: "failover", File: site,
			Old:     "	if len(budgets) > 0 {\n",
			New:     "	if len(budgets) > 99 {\n",
			Package: unit, Run: "^TestBadDays$/^two_at_once_with", Assertion: "a budget that is exhausted did not keep the second one",
		},
		{
			Name: "a-pause-holds-nothing", Promise: "failover", File: "failover/remedy.go",
			Old:     "takesPower(m.State) && (paused || !r.signs.looked(m)) {\n",
			New:     "takesPower(m.State) && (paused && m.State.Ended() || !r.signs.looked(m)) {\n",
			Package: unit, Run: "^TestBadDays$/^a_pause_holds", Assertion: "its power was taken during a pause",
		},
		{
			Name: "marks-of-others-are-taken", Promise: "failover", File: "failover/recover.go",
			Old:     "t.Key == TaintCordon || t == outOfService() }\n",
			New:     "t.Key == TaintCordon || t.Key == TaintOutOfService }\n",
			Package: unit, Run: "^TestSweepTakesWhatIsLeft$/^what_others_say$", Assertion: "the taints are",
		},
	}
}
