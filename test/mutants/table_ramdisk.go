package main

// ramdiskMutants lift the bounds of what ramdisks, and those who pass for them,
// may cost.
func ramdiskMutants() []Mutant {
	const room, flood = "fsm/relay_capacity.go", "^TestRelaysOfASourceAreBounded$"
	return []Mutant{
		{
			Name:      "relay-source-without-a-share",
			Promise:   "10",
			File:      room,
			Old:       "	if r.Source != \"\" {\n",
			New:       "	if len(r.Source) > maxRelaySource {\n",
			Package:   "./fsm",
			Run:       flood,
			Assertion: "source-share: one source has",
		},
		{
			Name:      "relay-room-not-reserved",
			Promise:   "10",
			File:      room,
			Old:       "relaySum{MaxRelaysUnknown, MaxRelayBytesUnknown}",
			New:       "relaySum{MaxRelaysUnknown, MaxRelayBytes}",
			Package:   "./fsm",
			Run:       flood,
			Assertion: "reserved-room: documents of unknown nodes take",
		},
		{
			Name:      "ramdisk-logs-of-strangers-without-a-share",
			Promise:   "10",
			File:      "inspector/ramdisklogs/quota.go",
			Old:       "(!ofUnknown || strangers <= d.quota/unknownShare) {\n			break",
			New:       "(!ofUnknown || strangers <= d.quota) {\n			break",
			Package:   "./inspector/ramdisklogs",
			Run:       "^TestLogsOfUnknownMachinesAreBounded$",
			Assertion: "unknown-share:",
		},
		{
			Name:      "ironic-listed-for-each-stranger",
			Promise:   "10",
			File:      "inspector/shared_read.go",
			Old:       "	if early <= 0 {\n",
			New:       "	if early != 0 {\n",
			Package:   "./inspector",
			Run:       "^TestReadingsArePaced$",
			Assertion: "ironic-lists:",
		},
		{
			Name:      "ironic-list-older-than-the-callback",
			Promise:   "9",
			File:      "inspector/shared_read.go",
			Old:       "	if r.last > before {\n",
			New:       "	if r.last >= before && before > 0 {\n",
			Package:   "./inspector",
			Run:       "^TestReadingIsNotOlderThanItsQuestion$",
			Assertion: "fresh: asked at",
		},
	}
}

// formerNodeMutants confuse nodes that Ironic has with those that it had.
func formerNodeMutants() []Mutant {
	return []Mutant{
		{
			Name:      "empty-list-believed-of-a-node-that-is-there",
			Promise:   "1",
			File:      "inspector/sync.go",
			Old:       "		if _, err := s.Ironic.Node(ctx, node); !errors.Is(err, ErrNoNode) {\n",
			New:       "		if _, err := s.Ironic.Node(ctx, node); !errors.Is(err, ErrNoNode) && !Unreachable(err) {\n",
			Package:   "./inspector",
			Run:       "^TestEmptyListIsCheckedNodeByNode$",
			Assertion: "empty-list: one is there",
		},
		{
			Name:      "answer-of-a-deleted-node-given-to-its-machine",
			Promise:   "9",
			File:      "inspector/callback.go",
			Old:       "	return !errors.Is(err, ErrNoNode)\n",
			New:       "	return err == nil || errors.Is(err, ErrNoNode)\n",
			Package:   "./inspector",
			Run:       "^TestSameBytesOfADeletedNode$",
			Assertion: "former-node",
		},
	}
}
