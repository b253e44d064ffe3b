package main

// formerMutants break what the log knows of the members before a founding.
func formerMutants() []Mutant {
	return []Mutant{
		{
			Name:      "door-opens-before-former-members-are-heard",
			Promise:   "2",
			File:      "fsm/pxe_door.go",
			Old:       "	case awaited != \"\":\n",
			New:       "	case false && awaited != \"\":\n",
			Package:   "./fsm",
			Run:       "^TestDoorsWaitForFormerMembers$",
			Assertion: "want refused",
		},
		{
			Name:      "kernel-of-a-former-member-not-waited-for",
			Promise:   "2",
			File:      "fsm/member_former.go",
			Old:       "			door.Since = now\n",
			New:       "			_ = now\n",
			Package:   "./fsm",
			Run:       "^TestDoorsWaitForFormerMembers$",
			Assertion: "former-kernel-waited-for:",
		},
		{
			Name:      "founder-waits-for-no-former-member",
			Promise:   "2",
			File:      "fsm/member_former.go",
			Old:       "		if !f.Heard {\n			names",
			New:       "		if false && !f.Heard {\n			names",
			Package:   "./test/simtest",
			Run:       "^TestFoundedAnew$",
			Assertion: "one-door:",
		},
		{
			Name:      "old-peer-that-answers-counts-as-stopped",
			Promise:   "2",
			File:      "cluster/former.go",
			Old:       "	return fmt.Errorf(\"%w (%w)\", ErrStillOld, err)\n",
			New:       "	_ = fmt.Errorf(\"%w (%w)\", ErrStillOld, err)\n	return nil\n",
			Package:   "./cluster",
			Run:       "^TestAskingAFormerMember$",
			Assertion: "former-answers:",
		},
		{
			Name:      "old-peer-is-asked-and-not-told",
			Promise:   "2",
			File:      "cluster/former.go",
			Old:       "pki.InquiryTLS(a.end, protocolHTTP, false, func",
			New:       "pki.InquiryTLS(a.end, protocolHTTP, true, func",
			Package:   "./cluster",
			Run:       "^TestAskingAFormerMember$",
			Assertion: "former-is-told:",
		},
		{
			Name:      "guard-opens-when-a-former-member-was-just-heard",
			Promise:   "2",
			File:      "firewall/former.go",
			Old:       "			w.heard, w.began = door.Since, time.Now()\n",
			New:       "			w.heard, w.began = door.Since, w.began.Add(0*time.Second)\n",
			Package:   "./firewall",
			Run:       "^TestGuardWaitsForFormerMembers$",
			Assertion: "the log was asked",
		},
	}
}

// rejoinMutants let hosts rejoin that must not.
func rejoinMutants() []Mutant {
	return []Mutant{
		{
			Name:      "lost-member-may-rejoin",
			Promise:   "7",
			File:      "fsm/refound.go",
			Old:       "		d.keepFormer(r.Former, before)\n",
			New:       "		d.keepFormer((View{&data{memberTables: memberTables{peers: before}}}).MayRun(r.Survivor), before)\n",
			Package:   "./fsm",
			Run:       "^TestFoundingAnewRecordsFormerMembers$",
			Assertion: "want refused",
		},
		{
			Name:      "former-certificate-rejoins-twice",
			Promise:   "7",
			File:      "fsm/member_former.go",
			Old:       "	case f.Became == c.Member.ID && f.Key == c.Key:\n",
			New:       "	case f.Became == c.Member.ID:\n",
			Package:   "./fsm",
			Run:       "^TestAFormerMemberRejoinsOnce$",
			Assertion: "want conflict",
		},
		{
			Name:      "rejoin-without-the-old-key",
			Promise:   "7",
			File:      "cluster/pki/rejoin.go",
			Old:       "	if !ok || !ecdsa.VerifyASN1(key, digest[:], p.Signature) {\n",
			New:       "	if !ok || key == nil || len(digest) == 0 {\n",
			Package:   "./cluster",
			Run:       "^TestRejoin",
			Assertion: "rejoin-refused:",
		},
		{
			Name: "rival-founder-heard", Promise: "2", File: "cluster/former.go",
			Old:     "	case found.Incarnation == ours && a.knows(found.Peer):\n",
			New:     "	case found.Incarnation == ours:\n",
			Package: "./cluster", Run: "^TestAskingAFormerMember$", Assertion: "former-answers: a peer of this incarnation that is no member",
		},
		{
			Name: "settled-former-member-revived", Promise: "1", File: "fsm/refound.go",
			Old:     "			d.peers.former.drop(key)\n",
			New:     "",
			Package: "./fsm", Run: "^TestRestoreRevivesNoSettledFormerMember$", Assertion: "settled-stays:",
		},
	}
}
