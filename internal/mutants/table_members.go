package main

// memberMutants break what operators decide of members.
func memberMutants() []Mutant {
	return []Mutant{
		{
			Name:      "maintenance-not-asked-at-the-vote",
			Promise:   "1",
			File:      "leader/fitness.go",
			Old:       "	case standing.Maintenance && !now.Before(f.lifted):\n		return ErrMaintenance\n",
			New:       "",
			Package:   "./internal/simtest",
			Run:       "^TestNewestLogIsInMaintenance$",
			Assertion: "maintenance-never-leads:",
		},
		{
			Name:      "safe-although-a-voter-lags",
			Promise:   "1",
			File:      "leader/safe.go",
			Old:       "	case v.Behind > behindMost:\n",
			New:       "	case v.Behind > 1<<62:\n",
			Package:   "./leader",
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
