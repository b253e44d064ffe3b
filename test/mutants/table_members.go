package main

// memberMutants break what operators decide of members.
func memberMutants() []Mutant {
	return []Mutant{
		{
			Name: "longest-host-name-does-not-join", Promise: "9", File: "cluster/admit.go",
			Old: "if !config.ValidHostName(req.Name) {", New: "if !config.ValidHostName(req.Name) || len(req.Name) > 63 {", Package: "./cluster", Run: "^TestHostNamesOfTheConfigurationJoin$", Assertion: "name-limit:",
		},
		{
			Name: "claims-of-a-removed-peer-freed-at-once", Promise: "3", File: "fsm/member.go",
			Old:     "!t.peers.version2() || !t.holdsClaim(session)",
			New:     "true",
			Package: "./fsm", Run: "^TestRemovedPeerHoldsItsClaimsUntilItsSessionEnds$", Assertion: "removed-holds-claims:",
		},
		{
			Name: "removed-peer-renews-its-session", Promise: "3", File: "fsm/member.go",
			Old:     "return s, ok && p.members.has([]byte(s.Peer))",
			New:     "return s, ok",
			Package: "./fsm", Run: "^TestRemovedPeerHoldsItsClaimsUntilItsSessionEnds$", Assertion: "renew session: ok",
		},
		{
			Name:      "maintenance-not-asked-at-the-vote",
			Promise:   "1",
			File:      "raftstore/leader/fitness.go",
			Old:       "	case flags.Maintenance && !now.Before(f.lifted):\n		return ErrMaintenance\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestNewestLogIsInMaintenance$",
			Assertion: "maintenance-never-leads:",
		},
		{
			Name:      "observer-counts-in-the-proof",
			Promise:   "2",
			File:      "raftstore/lead.go",
			Old:       "		if srv.Suffrage != raft.Voter {\n			continue\n",
			New:       "		if srv.Suffrage != raft.Voter {\n			others = append(others, srv.ID)\n			continue\n",
			Package:   "./test/simtest",
			Run:       "^TestObserverIsCountedInNoMajority$",
			Assertion: "observer-counts-nowhere:",
		},
		{
			Name:      "gossip-key-used-before-all-have-it",
			Promise:   "3",
			File:      "fsm/member_gossip.go",
			Old:       "	if d.gossip.Stage == GossipSettled {\n		return nil\n	}\n	for _, m := range",
			New:       "	if d.gossip.Stage >= GossipSettled {\n		return nil\n	}\n	for _, m := range",
			Package:   "./test/simtest",
			Run:       "^TestGossipKeyIsRotatedThroughLosses$",
			Assertion: "gossip-is-understood:",
		},
		{
			Name:      "safe-although-a-voter-lags",
			Promise:   "1",
			File:      "raftstore/leader/safe.go",
			Old:       "	case v.Behind > behindMost:\n",
			New:       "	case v.Behind > 1<<62:\n",
			Package:   "./raftstore/leader",
			Run:       "^TestJudge$",
			Assertion: "safe-means-safe:",
		},
		{
			Name:      "address-not-followed",
			Promise:   "1",
			File:      "cluster/membership.go",
			Old:       "		case srv.Address != address:\n",
			New:       "		case srv.Address != address && !srv.Voter:\n",
			Package:   "./cluster",
			Run:       "^TestRaftFollowsTheMembers$",
			Assertion: "the configuration is",
		},
	}
}
