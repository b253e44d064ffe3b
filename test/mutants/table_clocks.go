package main

// clockMutants break what certificates are worth where clocks are wrong.
func clockMutants() []Mutant {
	return []Mutant{
		{
			Name:      "certificate-of-the-future-not-renewed",
			Promise:   "clocks",
			File:      "cluster/pki/ca.go",
			Old:       "return now.Before(cert.NotBefore) || cert.NotAfter",
			New:       "return cert.NotAfter",
			Package:   "./cluster",
			Run:       "^TestCertificatesAreRenewed$",
			Assertion: "renewed: false",
		},
		{
			Name:      "certificate-of-a-clock-years-ahead-kept",
			Promise:   "clocks",
			File:      "cluster/pki/ca.go",
			Old:       "cert.NotAfter.After(now.Add(MaxTTL)) || !now",
			New:       "!now",
			Package:   "./cluster",
			Run:       "^TestCertificateOfAClockYearsAheadIsReplaced$",
			Assertion: "years-ahead-renewed:",
		},
		{
			Name:      "certificate-of-the-future-refused",
			Promise:   "clocks",
			File:      "cluster/pki/verify.go",
			Old:       "begin, end = begin.Add(-w.Tolerance), end.Add(w.Tolerance)",
			New:       "end = end.Add(w.Tolerance)",
			Package:   "./test/attacktest",
			Run:       "^TestCertificatesOfTheFuture$",
			Assertion: "a certificate that begins in 59 days",
		},
		{
			Name:      "certificates-of-any-future-accepted",
			Promise:   "clocks",
			File:      "cluster/pki/verify.go",
			Old:       "begin, end = begin.Add(-w.Tolerance), end.Add(w.Tolerance)",
			New:       "begin, end = begin.Add(-10*w.Tolerance), end.Add(w.Tolerance)",
			Package:   "./test/attacktest",
			Run:       "^TestCertificatesOfTheFuture$",
			Assertion: "a member whose certificate begins in 13 months",
		},
		{
			Name:      "tolerance-for-operators",
			Promise:   "clocks",
			File:      "cluster/pki/verify.go",
			Old:       "	if id.Role == RolePeer {\n		begin, end",
			New:       "	if id.Role == RolePeer || id.Role == RoleOperator {\n		begin, end",
			Package:   "./cluster/pki",
			Run:       "^TestMeetings$",
			Assertion: "within_the_tolerance",
		},
	}
}

// renewalMutants break how a peer renews its own certificate.
func renewalMutants() []Mutant {
	const renewal = "^Test(CertificatesAreRenewed|RenewalNeedsTheCAAndNoRemoval)$"
	return []Mutant{
		{
			Name:      "renewal-begins-in-the-future",
			Promise:   "clocks",
			File:      "cluster/pki/ca.go",
			Old:       "	begin = earliest(begin, o.Replaces.NotAfter.Add(-o.TTL-Backdate))\n",
			New:       "",
			Package:   "./cluster",
			Run:       renewal,
			Assertion: "the old certificate is good at",
		},
		{
			Name:      "renewal-ends-before-the-old-one",
			Promise:   "clocks",
			File:      "cluster/pki/ca.go",
			Old:       "		end = latest(end, o.Replaces.NotAfter)\n",
			New:       "		end = latest(end, o.Replaces.NotBefore)\n",
			Package:   "./cluster",
			Run:       renewal,
			Assertion: "the old certificate is good at",
		},
		{
			Name:      "renewal-needs-an-applied-log",
			Promise:   "clocks",
			File:      "cluster/renew.go",
			Old:       "if _, removed := view.Removed(old.Identity.Peer); removed {",
			New:       "if _, member := view.Member(old.Identity.Peer); !member {",
			Package:   "./cluster",
			Run:       renewal,
			Assertion: "a peer that its snapshot does not know",
		},
		{
			Name:      "removed-peer-renews",
			Promise:   "clocks",
			File:      "cluster/renew.go",
			Old:       "if _, removed := view.Removed(old.Identity.Peer); removed {",
			New:       "if _, removed := view.Removed(old.Identity.Peer); removed && len(view.Secrets().CAKey) == 0 {",
			Package:   "./cluster",
			Run:       renewal,
			Assertion: "a removed peer",
		},
	}
}
