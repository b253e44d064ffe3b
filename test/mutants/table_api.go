package main

import "slices"

// apiUnit is the package whose tests judge the API.
const apiUnit = "./api"

// apiMutants let in who may not, or turn away for good who should come again.
func apiMutants() []Mutant {
	return slices.Concat(policyMutants(), sourceMutants(), strangerMutants(), auditMutants(), keystoneMutants())
}

// policyMutants mistake one role for another.
func policyMutants() []Mutant {
	return []Mutant{
		{
			Name:      "reader-may-change",
			Promise:   "9",
			File:      "api/role.go",
			Old:       "	if c.Role < need {\n",
			New:       "	if c.Role == RoleNone {\n",
			Package:   apiUnit,
			Run:       "^TestPolicy$",
			Assertion: "want 403",
		},
		{
			Name:      "change-needs-no-role",
			Promise:   "9",
			File:      "api/inspector.go",
			Old:       "	read, change := RoleAdmin, RoleAdmin\n",
			New:       "	read, change := RoleAdmin, RoleReader\n",
			Package:   apiUnit,
			Run:       "^TestReadersSeeWhatTheContractNames$",
			Assertion: "as a reader: 202",
		},
	}
}

// sourceMutants break the limits of callbacks.
func sourceMutants() []Mutant {
	return []Mutant{
		{
			Name:      "limit-is-final",
			Promise:   "5",
			File:      "api/sources.go",
			Old:       "refuse(http.StatusServiceUnavailable, \"Too many callbacks are coming from",
			New:       "refuse(http.StatusTooManyRequests, \"Too many callbacks are coming from",
			Package:   apiUnit,
			Run:       "^TestARackBehindOneAddressPasses$",
			Assertion: "a ramdisk takes a 4xx for final",
		},
		{
			Name:      "sender-named-by-itself",
			Promise:   "forwarded-for",
			File:      "api/sender.go",
			Old:       "	if !connected.IsValid() || !within(proxies, connected) {\n",
			New:       "	if !connected.IsValid() || within(proxies, connected) && false {\n",
			Package:   apiUnit,
			Run:       "^TestWhatOneSourceIs$",
			Assertion: "whom that one named: 503",
		},
		{
			Name:      "sources-without-end",
			Promise:   "bounds",
			File:      "internal/httpserver/admission/known.go",
			Old:       "	if len(s.of) >= maxSources {\n",
			New:       "	if len(s.of) >= 2*maxSources {\n",
			Package:   "./internal/httpserver/admission",
			Run:       "^TestTheTableOfSourcesIsBounded$",
			Assertion: "sources are kept",
		},
	}
}

// strangerMutants let those who proved nothing cost others more than they should.
func strangerMutants() []Mutant {
	return []Mutant{
		{
			Name:      "known-login-waits-with-strangers",
			Promise:   "bounds",
			File:      "api/auth.go",
			Old:       "		known = knownCredentials\n",
			New:       "		known = knownSource\n",
			Package:   apiUnit,
			Run:       "^TestAKnownLoginDoesNotWaitForStrangers$",
			Assertion: "waits-with-strangers:",
		},
		{
			Name:      "audit-of-strangers-without-bound",
			Promise:   "bounds",
			File:      "api/audit_unauthenticated.go",
			Old:       "wait <= 0 {\n		return true",
			New:       "wait >= 0 {\n		return true",
			Package:   apiUnit,
			Run:       "^TestUnauthenticatedRequestsDoNotFillTheLog$",
			Assertion: "fills-the-log:",
		},
		{
			Name:      "pages-of-other-sites-may-change",
			Promise:   "cross-site",
			File:      "api/crosssite.go",
			Old:       "if r.Header.Get(tokenHeader) == \"\" && check.Check(r) != nil {",
			New:       "if r.Header.Get(tokenHeader) != \"\" && check.Check(r) != nil {",
			Package:   apiUnit,
			Run:       "^TestPagesOfOtherSitesChangeNothing$",
			Assertion: "cross-site:",
		},
		{
			Name:      "alias-repeats-a-password",
			Promise:   "secrets",
			File:      "config/syntax.go",
			Old:       "&fault{\"the word behind a * is an alias of nothing\"",
			New:       "&fault{\"*\" + name[1] + \" is an alias of nothing\"",
			Package:   "./config",
			Run:       "^TestNoMessageRepeatsASecret$",
			Assertion: "secret-repeated:",
		},
		{
			Name:      "failed-login-tells-user",
			Promise:   "bounds",
			File:      "api/auth.go",
			Old:       "	for ; cost < table.cost; cost++ {\n",
			New:       "	for ; cost < table.cost && false; cost++ {\n",
			Package:   apiUnit,
			Run:       "^TestFailedLoginsTakeTheSameTime$",
			Assertion: "told-by-time:",
		},
	}
}

// auditMutants leave changes untold, or show the wrong certificate.
func auditMutants() []Mutant {
	return []Mutant{
		{
			Name:      "change-not-told",
			Promise:   "audit",
			File:      "api/inspector.go",
			Old:       "e.DELETE(r.path, i.audited(strangers, sameSite(i.protected(change, i.admitted(r.class(http.MethodDelete), r.remove)))))",
			New:       "e.DELETE(r.path, sameSite(i.protected(change, i.admitted(r.class(http.MethodDelete), r.remove))))",
			Package:   apiUnit,
			Run:       "^TestEveryChangeIsTold$",
			Assertion: "DELETE",
		},
		{
			Name:      "operation-not-told",
			Promise:   "audit",
			File:      "api/front.go",
			Old:       "	e.Use(f.audit, f.admit)\n",
			New:       "	e.Use(f.admit)\n",
			Package:   "./app/admin",
			Run:       "^TestEveryOperationIsTold$",
			Assertion: "left []",
		},
		{
			Name:      "half-a-pair-served",
			Promise:   "TLS",
			File:      "api/tls.go",
			Old:       "		f.broken = true\n",
			New:       "		f.broken, f.pair = true, nil\n",
			Package:   apiUnit,
			Run:       "^TestCertificateFilesAreReadAgain$",
			Assertion: "while the key is still the old one:",
		},
		{
			Name:      "api-certificate-among-peers",
			Promise:   "TLS",
			File:      "cluster/pki/verify.go",
			Old:       "	case id.Role != RolePeer && id.Role != RoleOperator:\n",
			New:       "	case id.Role != RolePeer && id.Role != RoleOperator && id.Role != RoleAPI:\n",
			Package:   "./cluster/pki",
			Run:       "^TestServerRefusesAPIs$",
			Assertion: "server says",
		},
	}
}
