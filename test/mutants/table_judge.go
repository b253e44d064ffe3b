package main

import "slices"

const judgeUnit = "./failover"

// judgeMutants hold living kube nodes for dead, or act although a guard rail
// forbids it.
func judgeMutants() []Mutant {
	return slices.Concat(ageMutants(), holdMutants(), guardRailMutants())
}

// holdMutants let the hold time begin too early, or wait for what is no news.
func holdMutants() []Mutant {
	const beside, after = "^TestHoldRunsBesideTheLease$", "^TestHoldBeginsAgainAfterASilence$"
	return []Mutant{
		{
			Name: "hold-counts-from-the-age-of-the-lease", Promise: "failover", File: "failover/judge.go",
			Old:     "		if n.unheard() {\n",
			New:     "		if n.unheard() && f.overdue(n) {\n",
			Package: judgeUnit, Run: beside, Assertion: "hold-beside: a suspect",
		},
		{
			Name: "an-answer-does-not-end-a-silence", Promise: "failover", File: "failover/judge.go",
			Old:     "	j.since = make(map[sign]time.Time, len(before))\n",
			New:     "	j.since = before\n",
			Package: judgeUnit, Run: beside, Assertion: "hold-beside: a suspect",
		},
		{
			Name: "peers-are-silent-while-the-api-server-is", Promise: "failover", File: "failover/judge.go",
			Old:     "		if !f.api.Answers || !f.synced {\n			continue\n",
			New:     "		if !f.synced {\n			continue\n",
			Package: judgeUnit, Run: after, Assertion: "hold-silence:",
		},
		{
			Name: "silence-alone-is-enough", Promise: "failover", File: "failover/reasons.go",
			Old:     "	case f.overdue(n) && n.unheard():\n",
			New:     "	case (f.overdue(n) || n.unheardFor > f.settings.Detection.LeaseAge) && n.unheard():\n",
			Package: judgeUnit, Run: "^TestRenewalEndsALongSilence$", Assertion: "hold-renewed:",
		},
		{
			Name: "the-intent-waits-for-a-tick", Promise: "failover", File: "failover/cluster_controller.go",
			Old:     "		case <-due.C:\n			s.tracker.Ask()\n",
			New:     "		case <-due.C:\n",
			Package: judgeUnit, Run: "^TestIntentComesWhenTheLeaseIsOldEnough$", Assertion: "intent-on-time:",
		},
	}
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
