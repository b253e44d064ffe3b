package main

// pageMutants open the page at /ui/ to other sites, or its operations to users who may
// not have them.
func pageMutants() []Mutant {
	const session, forward, unit = "api/web/session.go", "api/web/forward.go", "./api/web"
	return []Mutant{
		{
			Name: "page-names-are-markup", Promise: "page", File: "api/web/assets.go",
			Old:     `html.EscapeString(p.o.Peer)`,
			New:     `p.o.Peer`,
			Package: unit, Run: "^TestIndexEscapes$", Assertion: "<script>alert",
		},
		{
			Name: "page-without-csrf-token", Promise: "page", File: session,
			Old:     "if !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(want)) {",
			New:     "if false && !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(want)) {",
			Package: unit, Run: "^TestCSRF$", Assertion: "no token to",
		},
		{
			Name: "page-session-without-end", Promise: "page", File: session,
			Old:     " || p.o.Wall().Unix() >= s.Ends",
			New:     "",
			Package: unit, Run: "^TestSession$", Assertion: "after its end",
		},
		{
			Name: "page-operations-with-noauth", Promise: "page", File: forward,
			Old:     "	case proof && !proved:\n",
			New:     "	case proof && !proved && false:\n",
			Package: unit, Run: "^TestRoles$", Assertion: "with noauth",
		},
		{
			Name: "page-hands-on-the-browsers-token", Promise: "page", File: session,
			Old:     "	out.Header.Del(\"X-Auth-Token\")\n",
			New:     "",
			Package: unit, Run: "^TestForwarded$", Assertion: "of viewer:look",
		},
		{
			Name: "browsers-password-counts-without-a-session", Promise: "page", File: session,
			Old:     "	out.Header.Del(\"Authorization\")\n",
			New:     "",
			Package: unit, Run: "^TestBrowsersOwnPassword$", Assertion: "own-password: GET /ui/api/session: 200",
		},
		{
			Name: "browsers-password-logs-in", Promise: "page", File: session,
			Old:     "	as.Header.Del(\"Authorization\")\n",
			New:     "",
			Package: unit, Run: "^TestBrowsersOwnPassword$", Assertion: "own-password: a login with a token:",
		},
	}
}
