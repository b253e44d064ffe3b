package main

import "slices"

const judgeUnit = "./failover"

// judgeMutants hold living kube nodes for dead, or act although a guard rail
// forbids it.
func judgeMutants() []Mutant {
	return slices.Concat(ageMutants(), guardRailMutants())
}

// ageMutants count what is no sign of death.
func ageMutants() []Mutant {
	return []Mutant{
		{
			Name:      "ages-that-never-freeze",
			Promise:   "failover",
			File:      "failover/tracker.go",
			Old:       "	return max(0, a.good.Sub(since))\n",
			New:       "	return max(0, time.Since(since))\n",
			Package:   judgeUnit,
			Run:       "^TestTrackerFreezesAndBeginsAnew$",
			Assertion: "ages-frozen:",
		},
		{
			Name:      "ages-not-begun-anew",
			Promise:   "failover",
			File:      "failover/tracker.go",
			Old:       "	t.api.began, t.api.back = now, now\n",
			New:       "	t.api.back = now\n",
			Package:   judgeUnit,
			Run:       "^TestTrackerFreezesAndBeginsAnew$",
			Assertion: "ages-restart:",
		},
		{
			Name:      "any-vote-is-enough",
			Promise:   "failover",
			File:      "failover/facts.go",
			Old:       "func (n *nodeFacts) unheard() bool { return 2*n.silent > n.voters }\n",
			New:       "func (n *nodeFacts) unheard() bool { return n.silent > 0 }\n",
			Package:   judgeUnit,
			Run:       "^TestMajority$",
			Assertion: "majority:",
		},
		{
			Name:      "no-hold-time",
			Promise:   "failover",
			File:      "failover/judge.go",
			Old:       "	v.Suspect = signs && n.lasting >= f.settings.Detection.Hold\n",
			New:       "	v.Suspect = signs && n.lasting >= 0\n",
			Package:   judgeUnit,
			Run:       "^TestFlapInsideHold$",
			Assertion: "hold:",
		},
		{
			Name:      "peer-without-a-network-votes",
			Promise:   "failover",
			File:      "failover/prober.go",
			Old:       "func ownFault(missing, all int) bool { return missing > 1 && 2*missing > all }\n",
			New:       "func ownFault(missing, all int) bool { return missing > 1 && missing > all }\n",
			Package:   judgeUnit,
			Run:       "^TestPeerThatLostItsNetworkWithdraws$",
			Assertion: "own-fault:",
		},
		{
			Name:      "new-leader-forgets-what-was-found",
			Promise:   "failover",
			File:      "failover/facts.go",
			Old:       "		return n.Renewed < 0\n",
			New:       "		return n.Renewed < 0 && n.Late\n",
			Package:   judgeUnit,
			Run:       "^TestStillAndReturned$",
			Assertion: "new-leader:",
		},
	}
}

// guardRailMutants take a guard rail away.
func guardRailMutants() []Mutant {
	return []Mutant{
		{
			Name:      "no-min-healthy",
			Promise:   "failover",
			File:      "failover/facts.go",
			Old:       "		allowed = min(allowed, all-g.MinHealthy.AtLeast(all))\n",
			New:       "		allowed = min(allowed, all)\n",
			Package:   judgeUnit,
			Run:       "^TestThreeOfFiveVotedSilent$",
			Assertion: "three-of-five:",
		},
		{
			Name:      "no-etcd-quorum",
			Promise:   "failover",
			File:      "failover/guardrail_cluster.go",
			Old:       "	case others < all/2+1:\n",
			New:       "	case others < 0:\n",
			Package:   judgeUnit,
			Run:       "^TestEveryGuardRailForbidsAlone$",
			Assertion: "etcd-quorum-forbids:",
		},
		{
			Name:      "living-peer-switched-off",
			Promise:   "failover",
			File:      "failover/guardrail_cluster.go",
			Old:       "	case here.alive:\n",
			New:       "	case here.alive && here.self:\n",
			Package:   judgeUnit,
			Run:       "^TestEveryGuardRailForbidsAlone$",
			Assertion: "own-quorum-forbids:",
		},
	}
}
