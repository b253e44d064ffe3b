package main

// failoverSimMutants are faults of failover that whole peers show: one that goes on
// under another's leadership, and one that takes over while nobody could look.
func failoverSimMutants() []Mutant {
	const sim = "./test/simtest"
	return []Mutant{
		{
			Name: "a-woken-leader-proves-nothing", Promise: "failover", File: "failover/cluster_controller.go",
			Old:     "	within, cancel, err := leader.Confirmed(ctx, s.a, proofLife)\n",
			New:     "	within, cancel := context.WithCancel(ctx)\n	var err error\n	_ = leader.Confirmed\n",
			Package: sim, Run: "^TestWokenFailoverLeader$", Assertion: "broken assertion proven: a leader that was woken under its successor sent",
		},
		{
			Name: "power-is-not-read-again", Promise: "failover", File: "failover/remedy_move.go",
			Old:     "	case power != PowerOff:\n",
			New:     "	case power == PowerUnknown:\n",
			Package: sim, Run: "^TestSwitchedOnMeanwhile$", Assertion: "broken assertion order:",
		},
	}
}
