package main

// formerMutants break what the log knows of the members before a founding anew.
func formerMutants() []Mutant {
	return []Mutant{
		{
			Name:      "door-opens-before-former-members-are-heard",
			Promise:   "2",
			File:      "fsm/door.go",
			Old:       "	case awaited != \"\":\n",
			New:       "	case false && awaited != \"\":\n",
			Package:   "./fsm",
			Run:       "^TestDoorsWaitForFormerMembers$",
			Assertion: "want refused",
		},
		{
			Name:      "kernel-of-a-former-member-not-waited-for",
			Promise:   "2",
			File:      "fsm/former.go",
			Old:       "			door.Since = now\n",
			New:       "			_ = now\n",
			Package:   "./fsm",
			Run:       "^TestDoorsWaitForFormerMembers$",
			Assertion: "former-kernel-waited-for:",
		},
		{
			Name:      "lost-member-may-rejoin",
			Promise:   "7",
			File:      "fsm/refound.go",
			Old:       "		d.keepFormer(r.Former, before)\n",
			New:       "		d.keepFormer((View{&data{peers: before}}).MayRun(r.Survivor), before)\n",
			Package:   "./fsm",
			Run:       "^TestFoundingAnewRecordsFormerMembers$",
			Assertion: "want refused",
		},
		{
			Name:      "former-certificate-rejoins-twice",
			Promise:   "7",
			File:      "fsm/former.go",
			Old:       "	case f.Became == c.Member.ID && f.Key == c.Key:\n",
			New:       "	case f.Became == c.Member.ID:\n",
			Package:   "./fsm",
			Run:       "^TestAFormerMemberRejoinsOnce$",
			Assertion: "want conflict",
		},
	}
}
