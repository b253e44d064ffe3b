package main

// httpMutants let callers of the HTTP servers cost more than their share.
func httpMutants() []Mutant {
	const server = "./internal/httpserver"
	return []Mutant{
		{
			Name: "body-may-stall", Promise: "10", File: "internal/httpserver/body.go",
			Old:     "	end := time.Now().Add(b.limits.Stall)\n	if b.end.Before(end) {",
			New:     "	end := b.end\n	if b.end.Before(end) {",
			Package: server, Run: "^TestBodies$", Assertion: "body-pace:",
		},
		{
			Name: "unread-body-has-no-deadline", Promise: "10", File: "internal/httpserver/body.go",
			Old:     "			if err := b.begin(); err != nil {\n				panic",
			New:     "			if err := b.set(time.Now().Add(b.limits.Body)); err != nil {\n				panic",
			Package: server, Run: "^TestUnsentBody$", Assertion: "unsent-body:",
		},
		{
			Name: "answer-may-stay-unread", Promise: "10", File: "internal/httpserver/conn.go",
			Old:     "		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.limits.Write)); err != nil {",
			New:     "		if err := c.Conn.SetWriteDeadline(time.Time{}); err != nil {",
			Package: server, Run: "^TestAnswers$", Assertion: "unread-answer:",
		},
		{
			Name: "header-lines-not-counted", Promise: "10", File: "internal/httpserver/conn.go",
			Old:     "		if c.lines > maxHeaderLines {",
			New:     "		if c.lines > maxHeaderBytes {",
			Package: server, Run: "^TestHeads$", Assertion: "header-lines:",
		},
		{
			Name: "flood-keeps-others-out", Promise: "10", File: "internal/httpserver/admission/table.go",
			Old:     "	if most > own+1 {",
			New:     "	if most > t.limit {",
			Package: server, Run: "^TestFloodFromAFewSourcesKeepsNobodyOut$", Assertion: "conn-flood:",
		},
		{
			Name: "callers-get-the-last-descriptors", Promise: "10", File: "internal/httpserver/listener.go",
			Old:     "	return spent && err == nil\n",
			New:     "	return spent && err != nil\n",
			Package: server, Run: "^TestLastDescriptorsAreNotForCallers$", Assertion: "descriptors-spare:",
		},
		{
			Name: "leads-without-descriptors", Promise: "10", File: "app/health/descriptors.go",
			Old:     "		if !errors.Is(err, lack) {",
			New:     "		if !errors.Is(err, lack) || lack != syscall.ENOMEM {",
			Package: "./app/health", Run: "^TestDescriptors$", Assertion: "descriptors-unfit:",
		},
		{
			Name: "stalled-documents-keep-others-out", Promise: "10", File: "internal/httpserver/admission/memory.go",
			Old:     "		if !m.displace(r, more) {",
			New:     "		if bytes >= 0 {",
			Package: "./api", Run: "^TestStalledDocumentsKeepNoOthersOut$", Assertion: "body-room:",
		},
		{
			Name: "unread-answers-take-all-memory", Promise: "10", File: "api/admit.go",
			Old:     "	return place.Answer(bytes)\n",
			New:     "	return place.Answer(0)\n",
			Package: "./api", Run: "^TestUnreadAnswersAreBounded$", Assertion: "answers-room:",
		},
		{
			Name: "large-documents-take-all-room", Promise: "10", File: "internal/httpserver/admission/memory.go",
			Old:     "m.large-m.largeOf(r.bytes)+grown <= m.bytes.Large)",
			New:     "m.large-m.largeOf(r.bytes)+grown <= m.bytes.All)",
			Package: "./api", Run: "^TestRoomForSmallDocuments$", Assertion: "body-reserve:",
		},
	}
}
