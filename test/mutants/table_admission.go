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
			Name: "json-steers-the-terminal", Promise: "access", File: "cli/output.go",
			Old:     "		case steersNothing(r):\n",
			New:     "		case steersNothing(r), r > 0xff:\n",
			Package: "./cli", Run: "^TestDocumentsSteerNoTerminal$", Assertion: "output-escapes:",
		},
	}
}
