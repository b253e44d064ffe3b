package main

// hungIronicMutants judge nodes by an Ironic that hung.
func hungIronicMutants() []Mutant {
	return []Mutant{
		{
			Name:      "first-silence-is-judged",
			Promise:   "4",
			File:      "inspector/ironic_health.go",
			Old:       "return h.Check(ctx) == nil && !h.LostSince(began) && witnessed",
			New:       "return h.Check(ctx) == nil && !h.LostSince(began) && (witnessed || true)",
			Package:   "./inspector",
			Run:       "^TestSilentIronicIsWaitedFor$",
			Assertion: "silence-is-no-verdict:",
		},
		{
			Name:      "call-without-a-caller-is-sent",
			Promise:   "5",
			File:      "inspector/ironic/transport.go",
			Old:       "if ctx.Err() != nil {",
			New:       "if ctx.Err() != nil && ctx == nil {",
			Package:   "./inspector/ironic",
			Run:       "^TestCallerThatLeftSendsNothing$",
			Assertion: "caller-left:",
		},
		{
			Name:    "request-repeated-on-another-connection",
			Promise: "5",
			File:    "inspector/ironic/transport.go",
			Old:     "	resp, err := c.exchange(req)\n	if err != nil {\n",
			New: "	resp, err := c.exchange(req)\n	if err != nil && req.ContentLength == 0 {\n		t.drop(c)\n		bare := req.WithContext(context.Background())\n" +
				"		if c, err = t.connect(bare.Context(), req.URL); err == nil {\n			resp, err = c.exchange(bare)\n		}\n	}\n	if err != nil {\n",
			Package:   "./inspector/ironic",
			Run:       "^TestNothingIsRepeatedUnasked$",
			Assertion: "no-repeat: GET by ours",
		},
		{
			Name:      "examination-outlives-the-session",
			Promise:   "5",
			File:      "inspector/accept_callback.go",
			Old:       "j.examine(WithGuard(p.stop.tasks, j.node.current), cb.Data)",
			New:       "j.examine(p.stop.tasks, cb.Data)",
			Package:   "./inspector",
			Run:       "^TestExaminationEndsWithTheSession$",
			Assertion: "silent-after-session:",
		},
		{
			Name:      "later-silence-needs-no-witness",
			Promise:   "4",
			File:      "inspector/ironic_health.go",
			Old:       "h.heard.After(began) && now.Sub(h.heard) < 2*doubtInterval",
			New:       "!h.heard.After(now)",
			Package:   "./inspector",
			Run:       "^TestSecondSilenceIsWaitedFor$",
			Assertion: "silence-is-no-verdict:",
		},
	}
}
