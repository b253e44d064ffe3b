package main

// successorMutants break what is promised of callbacks that are Ironic's own.
func successorMutants() []Mutant {
	return []Mutant{
		{
			Name:      "relay-repeat-not-joined",
			Promise:   "5",
			File:      "fsm/relay.go",
			Old:       "	return r, ok && (r.State == RelayPending || now.Sub(r.Accepted) < RelayRepeat)\n",
			New:       "	return r, ok && r.State == RelayPending && now < r.Accepted\n",
			Package:   "./test/simtest",
			Run:       "^TestRelaysSurvive$",
			Assertion: "relay-joined: ",
		},
		{
			Name:      "relay-attempt-of-a-dead-leader-forgotten",
			Promise:   "5",
			File:      "fsm/relay_verbs.go",
			Old:       "	r.Doubt = r.Doubt || r.Open\n",
			New:       "	r.Doubt = r.Doubt && r.Open\n",
			Package:   "./inspector",
			Run:       "^TestRelaySurvivesItsLeader$",
			Assertion: "relay-told: Ironic has it",
		},
		{
			Name:      "relay-lost-answer-forgotten",
			Promise:   "5",
			File:      "fsm/relay_verbs.go",
			Old:       "		r.Doubt = true\n",
			New:       "		r.Doubt = r.Open\n",
			Package:   "./inspector",
			Run:       "^TestRelayIsTriedAgain$",
			Assertion: "relay-told: the answer is lost",
		},
		{
			Name:      "relay-refused-for-good-without-quorum",
			Promise:   "7",
			File:      "inspector/inband_inspection.go",
			Old:       "	if errors.As(err, &said) && said.Status == http.StatusBadRequest {\n",
			New:       "	if !errors.As(err, &said) {\n		said = &Refusal{Message: err.Error()}\n	}\n	if said.Status != http.StatusNotFound {\n",
			Package:   "./inspector",
			Run:       "^TestContinueInspectionWithoutQuorum$",
			Assertion: "5xx-without-quorum: ",
		},
		{
			Name: "relay-mode-refuses-for-good-without-quorum", Promise: "7", File: "inspector/relay.go",
			Old:     "	v, err := view(ctx, r.o.Log, Linearizable)\n	if err != nil {\n		return InbandAnswer{}, err\n",
			New:     "	v, err := view(ctx, r.o.Log, Linearizable)\n	if err != nil {\n		return InbandAnswer{}, refuse(http.StatusNotFound, \"%v\", err)\n",
			Package: "./inspector", Run: "^TestContinueInspectionWithoutQuorum$", Assertion: "5xx-without-quorum: relay",
		},
		{
			Name: "inspected-shut-while-ironic-is-away", Promise: "2", File: "firewall/inspected.go",
			Old:     "			return nil, nil, fmt.Errorf(\"list the nodes: %w\", err)\n",
			New:     "			listed = nil\n",
			Package: "./firewall", Run: "^TestFollowLetsInWhatIronicInspects$", Assertion: "while Ironic is away",
		},
		{
			Name: "inspected-let-in-for-ever", Promise: "2", File: "firewall/inspected.go",
			Old:     "		if !now[old.Node] {\n",
			New:     "		if !now[old.Node] && f.ironic == nil {\n",
			Package: "./firewall", Run: "^TestFollowLetsInWhatIronicInspects$", Assertion: "after its inspection",
		},
	}
}
