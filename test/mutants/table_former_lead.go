package main

// formerLeadMutants let a leadership rely on what an earlier one heard of former
// members, or on what it heard before.
func formerLeadMutants() []Mutant {
	return []Mutant{
		{
			Name: "leadership-hears-no-former-member-itself", Promise: "2", File: "fsm/leadership.go",
			Old:     "	t.unhearAll()\n",
			New:     "",
			Package: "./test/simtest", Run: "^TestOldMajorityReturns$", Assertion: "one-door:",
		},
		{
			Name: "answered-rejoiner-counts-as-rejoined", Promise: "2", File: "fsm/member_former.go",
			Old:     "		t.unhear(f)\n	}\n}\n",
			New:     "		if f.Became == \"\" {\n			t.unhear(f)\n		}\n	}\n}\n",
			Package: "./test/simtest", Run: "^TestOldMajorityReturns$", Assertion: "one-door:",
		},
		{
			Name: "kernel-of-an-old-majority-not-waited-for", Promise: "2", File: "fsm/member_former.go",
			Old:     "	t.doors.doubtFormer(t.lead.Token)\n",
			New:     "",
			Package: "./fsm", Run: "^TestEachLeadershipHearsFormerMembers$", Assertion: "heard-by-each-leadership: opened",
		},
		{
			Name: "former-member-that-runs-stays-heard", Promise: "2", File: "cluster/former.go",
			Old:     "	running := errors.Is(err, ErrStillOld) || errors.Is(err, ErrRival)\n",
			New:     "	running := false\n",
			Package: "./cluster", Run: "^TestFormersAsksUntilAllAreHeard$", Assertion: "running-is-not-heard:",
		},
		{
			Name: "former-member-heard-at-one-of-its-addresses", Promise: "2", File: "cluster/former.go",
			Old:     "	return errors.Join(answers...)\n",
			New:     "	for _, err := range answers {\n		if err == nil {\n			return nil\n		}\n	}\n	return errors.Join(answers...)\n",
			Package: "./cluster", Run: "^TestAskingAFormerMemberAtAllAddresses$", Assertion: "all-addresses-refuse: the second does not answer:",
		},
		{
			Name: "former-member-asked-at-one-of-two-recorded-addresses", Promise: "2", File: "fsm/member_former.go",
			Old:     "	return []string{f.Address, f.Second}\n",
			New:     "	return []string{f.Address}\n",
			Package: "./cluster", Run: "^TestAskingAFormerMemberAtBothAddresses$", Assertion: "both-addresses:",
		},
		{
			Name: "survey-believes-one-of-a-hosts-addresses", Promise: "2", File: "cluster/survey.go",
			Old:     "presence == Silent && out.Presence == Stopped {\n",
			New:     "presence == Stopped && out.Presence == Silent {\n",
			Package: "./cluster", Run: "^TestAskingAFormerMemberAtAllAddresses$", Assertion: "survey:",
		},
	}
}

// formerDoorMutants open beside a peer of an earlier history that the log does not
// know enough of.
func formerDoorMutants() []Mutant {
	return []Mutant{
		{
			Name: "former-member-settled-by-another-host-at-one-address", Promise: "2", File: "fsm/member_former.go",
			Old:     "		case rest.Address == \"\" || f.Name == m.Name:\n",
			New:     "		case true:\n",
			Package: "./fsm", Run: "^TestFormerMemberAtTwoAddresses$", Assertion: "both-addresses: another host joins at the first:",
		},
		{
			Name: "namesake-of-a-rejoiner-settles-its-record", Promise: "2", File: "fsm/member_jointoken.go",
			Old:     "		t.unsettleFormer(old.ID)\n",
			New:     "",
			Package: "./fsm", Run: "^TestJoinerInTheNameOfARejoinerEndsNoWait$", Assertion: "answered-is-not-rejoined:",
		},
		{
			Name: "unknown-door-waits-for-leases-that-were-seen", Promise: "2", File: "fsm/pxe_door.go",
			Old:     "max(d.Pass.Wait, other.Pass.Wait, UnknownPassWait)",
			New:     "max(d.Pass.Wait, other.Pass.Wait)",
			Package: "./fsm", Run: "^TestUnknownDoorsAreWaitedForInFull$", Assertion: "unknown-waits-in-full:",
		},
		{
			Name: "unknown-door-forgets-its-wait", Promise: "2", File: "fsm/pxe_door.go",
			Old:     "max(d.Pass.Wait, other.Pass.Wait, UnknownPassWait)",
			New:     "UnknownPassWait",
			Package: "./fsm", Run: "^TestUnknownDoorsAreWaitedForInFull$", Assertion: "unknown-waits-in-full:",
		},
		{
			Name: "unknown-address-forgets-its-wait", Promise: "2", File: "fsm/pxe_door.go",
			Old:     "max(d.Address.Wait, other.Address.Wait, UnknownAddressWait)",
			New:     "UnknownAddressWait",
			Package: "./fsm", Run: "^TestUnknownDoorsAreWaitedForInFull$", Assertion: "unknown-waits-in-full:",
		},
		{
			Name: "guard-waits-for-its-own-lease-alone", Promise: "2", File: "firewall/guard.go",
			Old:     "	return time.Until(w.began.Add(max(wait, d.Wait)))\n",
			New:     "	return time.Until(w.began.Add(wait))\n",
			Package: "./firewall", Run: "^TestGuardWaitsForFormerMembers$", Assertion: "waits-for-former:",
		},
	}
}
