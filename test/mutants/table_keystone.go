package main

// keystoneMutants take a token for good that is not, or let go on who may not.
func keystoneMutants() []Mutant {
	return []Mutant{
		{
			Name:      "expired-token-honoured",
			Promise:   "keystone",
			File:      "api/recent.go",
			Old:       "	if !now.Before(kept.until) || !kept.ends.IsZero() && !now.Before(kept.ends) {\n",
			New:       "	if !now.Before(kept.until) {\n",
			Package:   apiUnit,
			Run:       "^TestKnownForTheirTime$",
			Assertion: "it has ended: 0",
		},
		{
			Name:      "known-for-ever",
			Promise:   "keystone",
			File:      "api/recent.go",
			Old:       "	if !now.Before(kept.until) || !kept.ends.IsZero() && !now.Before(kept.ends) {\n",
			New:       "	if !kept.ends.IsZero() && !now.Before(kept.ends) {\n",
			Package:   apiUnit,
			Run:       "^TestKnownForTheirTime$",
			Assertion: "after its time in memory: 0 questions",
		},
		{
			Name:      "role-of-keystone-not-checked",
			Promise:   "keystone",
			File:      "api/keystone.go",
			Old:       "	case hasRole(h, k.conf.AdminRoles):\n",
			New:       "	case len(h.Roles) > 0:\n",
			Package:   apiUnit,
			Run:       "^TestPolicyWithKeystone$",
			Assertion: "want 403",
		},
		{
			Name:      "scope-of-role-not-checked",
			Promise:   "keystone",
			File:      "api/keystone.go",
			Old:       "		if system && !h.System {\n",
			New:       "		if system && !h.System && false {\n",
			Package:   apiUnit,
			Run:       "^TestRolesOfKeystone$",
			Assertion: "want none",
		},
		{
			Name:      "keystone-away-is-a-refusal",
			Promise:   "keystone",
			File:      "api/keystone.go",
			Old:       "	return holder, refuse(http.StatusServiceUnavailable, \"Keystone cannot be asked",
			New:       "	return holder, refuse(http.StatusUnauthorized, \"Keystone cannot be asked",
			Package:   apiUnit,
			Run:       "^TestAwayIsNoRefusal$",
			Assertion: "401",
		},
		{
			Name: "keystone-away-is-not-told", Promise: "keystone", File: "api/keystone.go",
			Old:     "	if k.away.Swap(&silence{why: err, since: k.now()}) == nil {\n",
			New:     "	if k.away.Load() == nil {\n",
			Package: apiUnit, Run: "^TestAwayUntilItAnswers$", Assertion: "not told that it is away",
		},
		{
			Name: "keystone-away-for-ever", Promise: "keystone", File: "api/keystone.go",
			Old:     "	if last == nil || k.now().Sub(last.since) >= awayFor {\n",
			New:     "	if last == nil {\n",
			Package: apiUnit, Run: "^TestAwayUntilItAnswers$", Assertion: "away long after anybody asked",
		},
	}
}
