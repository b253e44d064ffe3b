package main

// admissionMutants let the work that callers cause take what others need.
func admissionMutants() []Mutant {
	const unit = "./internal/httpserver/admission"
	return []Mutant{
		{
			Name: "one-source-takes-every-place", Promise: "10", File: "internal/httpserver/admission/line.go",
			Old:     "	if l.idle > 0 && l.in[source] < l.places.Share {\n",
			New:     "	if l.idle > 0 {\n",
			Package: unit, Run: "^TestASourceHasItsShare$", Assertion: "line-share:",
		},
		{
			Name: "strangers-take-the-places-of-callbacks", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	case class != Stream && !p.caller.Source.IsValid():\n",
			New:     "	case class == Stranger:\n		class = Callback\n	case class != Stream && !p.caller.Source.IsValid():\n",
			Package: unit, Run: "^TestAClassTakesNoPlaceOfAnother$", Assertion: "class-places:",
		},
		{
			Name: "the-socket-waits-with-the-network", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "		class = socket\n",
			New:     "		class = Operator\n",
			Package: unit, Run: "^TestAClassTakesNoPlaceOfAnother$", Assertion: "socket-places:",
		},
		{
			Name: "readers-take-all-streams", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	case class == Stream && p.caller.Operator:\n",
			New:     "	case class == Stream:\n",
			Package: unit, Run: "^TestStreamsOfOperatorsHavePlaces$", Assertion: "stream-places:",
		},
		{
			Name: "one-source-leaves-all-answers-untaken", Promise: "10", File: "internal/httpserver/admission/memory.go",
			Old:     "m.of[r.source]+more > m.bytes.Share",
			New:     "m.of[r.source]+more > m.bytes.All",
			Package: unit, Run: "^TestAnswersThatAreNotTaken$", Assertion: "answer-share:",
		},
		{
			Name: "work-that-never-stops-takes-a-processor", Promise: "10", File: "internal/httpserver/admission/line.go",
			Old:     "	if wait <= 0 {\n		l.Leave(source)\n",
			New:     "	if wait <= l.places.Wait {\n		l.Leave(source)\n",
			Package: unit, Run: "^TestWorkIsPaced$", Assertion: "work-pace:",
		},
		{
			Name: "a-slow-caller-keeps-a-dear-place", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	p.vacate()\n	p.held = append(p.held, done)\n",
			New:     "	p.held = append(p.held, done)\n",
			Package: unit, Run: "^TestPlacesAreGivenBack$", Assertion: "answer-place:",
		},
	}
}

// classMutants let what one caller asks take the places of others, on the listeners next
// to the API.
func classMutants() []Mutant {
	return []Mutant{
		{
			Name: "peers-wait-with-the-network", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	case p.caller.Peer:\n",
			New:     "	case p.caller.Peer && class == Stream:\n",
			Package: "./internal/httpserver/admission", Run: "^TestAClassTakesNoPlaceOfAnother$", Assertion: "peer-places:",
		},
		{
			Name: "one-peer-takes-the-places-of-all", Promise: "10", File: "cluster/routes.go",
			Old:     "Source: admission.Named(id.Peer)",
			New:     "Source: admission.Named(id.Cluster)",
			Package: "./cluster", Run: "^TestOnePeerLeavesPlacesForOthers$", Assertion: "peer-share:",
		},
		{
			Name: "any-number-of-joins-at-once", Promise: "10", File: "cluster/admit.go",
			Old:     "a.by.Admit(r.Context(), admission.Join,",
			New:     "a.by.Admit(r.Context(), admission.Operator,",
			Package: "./cluster", Run: "^TestJoinsWaitForEachOther$", Assertion: "join-places:",
		},
		{
			Name: "who-leads-is-asked-among-strangers", Promise: "10", File: "lease/elector/endpoint.go",
			Old:     "const Class = admission.Probe\n",
			New:     "const Class = admission.Stranger\n",
			Package: "./lease/elector", Run: "^TestProbesHavePlacesOfTheirOwn$", Assertion: "probe-places:",
		},
		{
			Name: "reviews-keep-their-place-while-they-wait", Promise: "10", File: "haconfig/review.go",
			Old:     "		around, unread = surroundings(ctx, of.Cluster, review.Request.Namespace)\n",
			New:     "		unread = h.do(ctx, admission.Review, r, func() (err error) {\n			around, err = surroundings(ctx, of.Cluster, review.Request.Namespace)\n			return err\n		})\n",
			Package: "./haconfig", Run: "^TestReviewsThatWaitHoldNoPlace$", Assertion: "review-waits:",
		},
		{
			Name: "one-source-holds-the-bodies-of-all-reviews", Promise: "10", File: "haconfig/review.go",
			Old:     "Share: 24 << 20",
			New:     "Share: 48 << 20",
			Package: "./haconfig", Run: "^TestBodiesOfReviewsAreBounded$", Assertion: "review-bytes:",
		},
	}
}

// knownMutants forget the bounds of what is kept of a source.
func knownMutants() []Mutant {
	return []Mutant{
		{
			Name: "good-credentials-count-for-ever", Promise: "bounds", File: "internal/httpserver/admission/known.go",
			Old:     "	return ok && now.Before(*until)\n",
			New:     "	return ok && !until.IsZero()\n",
			Package: "./internal/httpserver/admission", Run: "^TestKnownSources$", Assertion: "known-while:",
		},
		{
			Name: "one-host-has-all-streams-of-gossip", Promise: "10", File: "cluster/gossip_transport.go",
			Old:     "admission.NewTable(maxGossipStreams, maxGossipPerHost)",
			New:     "admission.NewTable(maxGossipStreams, maxGossipStreams)",
			Package: "./cluster", Run: "^TestGossipStreamsPerHost$", Assertion: "streams of one host, want at most",
		},
	}
}

// listMutants answer lists as a whole, or not wholly, or hold places while nothing is
// done.
func listMutants() []Mutant {
	const api = "./api"
	return []Mutant{
		{
			Name: "page-without-bound", Promise: "10", File: "api/pages.go",
			Old:     "len(b)-begin >= maxPageBytes {",
			New:     "len(b)-begin >= maxPageBytes<<20 {",
			Package: api, Run: "^TestListsArePages$", Assertion: "page-bound:",
		},
		{
			Name: "page-begins-with-the-marker", Promise: "lease", File: "fsm/table.go",
			Old:     "return append([]byte(key), 0) }",
			New:     "return []byte(key) }",
			Package: api, Run: "^TestListsArePages$", Assertion: "page-whole:",
		},
		{
			Name: "one-page-is-the-list-of-leases", Promise: "lease", File: "client/leases.go",
			Old:     "		if !page.More {\n",
			New:     "		if len(all) > 0 {\n",
			Package: "./client", Run: "^TestLeasesOfPages$", Assertion: "lease-pages:",
		},
		{
			Name: "those-who-await-a-lease-keep-others-from-changes", Promise: "10", File: "api/lease.go",
			Old:     "	if a.Wait > 0 {",
			New:     "	if a.Wait < 0 {",
			Package: api, Run: "^TestThoseWhoWaitForLeasesHoldNoPlace$", Assertion: "lease-waits:",
		},
	}
}

// costMutants let callers cost more than their requests are worth.
func costMutants() []Mutant {
	const api = "./api"
	return []Mutant{
		{
			Name: "each-caller-computes", Promise: "10", File: "internal/httpserver/admission/shared.go",
			Old:     "ok && now.Before(r.until) {\n",
			New:     "ok && now.Before(r.until) && s.most == 0 {\n",
			Package: api, Run: "^TestMetricsAreSharedByAllWhoAsk$", Assertion: "metrics-shared:",
		},
		{
			Name: "lists-without-a-leader-keep-their-place", Promise: "10", File: "api/inspector.go",
			Old:     "	if class != admission.Dear || i.Service == nil {\n		return in\n",
			New:     "	if class != admission.Dear || i.Service != nil {\n		return in\n",
			Package: api, Run: "^TestListsThatWaitForALeaderHoldNoPlace$", Assertion: "dear-waits:",
		},
		{
			Name: "a-removed-user-reads-on", Promise: "access", File: "api/events.go",
			Old:     "			if proof = time.Now(); !still() {\n",
			New:     "			if proof = time.Now(); still == nil {\n",
			Package: api, Run: "^TestAStreamEndsWithItsUser$", Assertion: "stream-user:",
		},
		{
			Name: "a-reader-fills-the-audit", Promise: "audit", File: "api/audit.go",
			Old:     "m.proved && status < http.StatusBadRequest ||",
			New:     "m.proved ||",
			Package: api, Run: "^TestRefusedChangesOfAReaderDoNotFillTheLog$", Assertion: "audit-refused:",
		},
		{
			Name: "calls-push-warnings-out", Promise: "events", File: "api/events/reporter.go",
			Old:     "e.Topic == fsm.TopicAudit && r.audits() >= maxAudits",
			New:     "e.Topic == fsm.TopicAudit && r.audits() >= MaxWaiting",
			Package: "./api/events", Run: "^TestAuditsLeaveRoomForWarnings$", Assertion: "report-room:",
		},
		{
			Name: "a-query-of-many-parameters", Promise: "10", File: "internal/httpserver/server.go",
			Old:     "< maxParameters {\n",
			New:     "< maxHeaderBytes {\n",
			Package: "./internal/httpserver", Run: "^TestParameters$", Assertion: "query-parameters:",
		},
		{
			Name: "json-steers-the-terminal", Promise: "access", File: "cli/term/output.go",
			Old:     "		case steersNothing(r):\n",
			New:     "		case steersNothing(r), r > 0xff:\n",
			Package: "./cli/term", Run: "^TestDocumentsSteerNoTerminal$", Assertion: "output-escapes:",
		},
	}
}

// paceMutants do work for callers before anything bounds it.
func paceMutants() []Mutant {
	const unit = "./internal/httpserver/admission"
	return []Mutant{
		{
			Name: "a-request-costs-what-its-handler-does", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "extra: taking}",
			New:     "extra: taking / 100}",
			Package: unit, Run: "^TestTheCheapestRequestCounts$", Assertion: "request-cost:",
		},
		{
			Name: "what-has-no-route-costs-nothing", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "		if asked.Load() {\n			return\n",
			New:     "		if asked.Load() || source.IsValid() {\n			return\n",
			Package: unit, Run: "^TestARequestWithoutAPlaceCounts$", Assertion: "request-stray:",
		},
		{
			Name: "connections-begin-at-any-pace", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	line.LeaveAfter(source, cost)\n	return nil\n}\n\n// Taken",
			New:     "	line.LeaveAfter(source, cost/100)\n	return nil\n}\n\n// Taken",
			Package: unit, Run: "^TestConnectionsWaitForTheirTurn$", Assertion: "connect-pace:",
		},
		{
			Name: "bodies-come-in-at-any-pace", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	line.LeaveAfter(p.caller.Source, cost)\n",
			New:     "	line.LeaveAfter(p.caller.Source, cost/100)\n",
			Package: unit, Run: "^TestBodiesComeInAtAPace$", Assertion: "intake-pace:",
		},
		{
			Name: "a-slow-body-keeps-the-place-of-a-callback", Promise: "10", File: "internal/httpserver/admission/controller.go",
			Old:     "	class := p.class\n	p.vacate()\n	if err := wait(); err != nil {\n		return err\n	}\n",
			New:     "	class := p.class\n	if err := wait(); err != nil {\n		return err\n	}\n	p.vacate()\n",
			Package: unit, Run: "^TestWhoSendsSlowlyHoldsNoPlace$", Assertion: "aside-place:",
		},
	}
}

// turnMutants do not wait for the turn of a source.
func turnMutants() []Mutant {
	return []Mutant{
		{
			Name: "a-connection-is-read-before-its-turn", Promise: "10", File: "internal/httpserver/conn.go",
			Old:     "	if c.begin != nil {\n",
			New:     "	if c.begin != nil && c.tls != nil {\n",
			Package: "./internal/httpserver", Run: "^TestAConnectionWaitsForItsTurn$", Assertion: "begin-turn:",
		},
		{
			Name: "a-surplus-connection-waits-on", Promise: "10", File: "internal/httpserver/listener.go",
			Old:     "			c.over()\n			_ = accepted.Close()",
			New:     "			_ = accepted.Close()",
			Package: "./internal/httpserver", Run: "^TestASurplusConnectionWaitsNoLonger$", Assertion: "begin-ends:",
		},
		{
			Name: "handshakes-begin-at-any-pace", Promise: "10", File: "cluster/unauthenticated.go",
			Old:     "	if c.once.Do(func() { c.begun = c.begin() }); c.begun != nil {\n",
			New:     "	if c.once.Do(func() {}); c.begun != nil {\n",
			Package: "./cluster", Run: "^TestHandshakesWaitForTheirTurn$", Assertion: "handshake-pace:",
		},
		{
			Name: "strangers-take-the-room-of-members-hosts", Promise: "10", File: "cluster/unauthenticated.go",
			Old:     "s.open[known].Enter(",
			New:     "s.open[known && source.IsValid()].Enter(",
			Package: "./cluster", Run: "^TestMembersHostsHaveRoomOfTheirOwn$", Assertion: "member-room:",
		},
		{
			Name: "large-documents-are-read-all-at-once", Promise: "10", File: "inspector/callback.go",
			Old:     "	if len(body) <= largeDocument {\n",
			New:     "	if len(body) <= largeDocument<<20 {\n",
			Package: "./inspector", Run: "^TestLargeDocumentsAreReadInTurn$", Assertion: "document-places:",
		},
		{
			Name: "unknown-tokens-reach-the-leader-unbounded", Promise: "10", File: "cluster/refusals.go",
			Old:     "	unknownBurst     = 5\n",
			New:     "	unknownBurst     = 5 << 10\n",
			Package: "./cluster", Run: "^TestUnknownTokensCostNoEntry$", Assertion: "unknown-pace:",
		},
		{
			Name: "each-caller-computes-the-status", Promise: "10", File: "app/admin/host.go",
			Old:     "		if api.OnSocket(ctx) {\n",
			New:     "		if shared != nil {\n",
			Package: "./app/admin", Run: "^TestTheStatusIsSharedByAllWhoAsk$", Assertion: "status-shared:",
		},
	}
}
