package main

// ballastMutants break what a peer promises of a full disk.
func ballastMutants() []Mutant {
	return []Mutant{
		{
			Name:      "ballast-log-takes-what-is-for-terms",
			Promise:   "disk",
			File:      "raftstore/ballast/guard.go",
			Old:       "if err := l.b.refuses(); err != nil {",
			New:       "if err := l.b.refuses(); err != nil && len(es) == 0 {",
			Package:   "./raftstore/ballast",
			Run:       "^TestAFullDiskIsOutlived$",
			Assertion: "an entry took what is meant for terms",
		},
		{
			Name:      "ballast-lets-raft-panic",
			Promise:   "disk",
			File:      "raftstore/ballast/guard.go",
			Old:       "if !Full(err) || string(key) != keyTerm {",
			New:       "if !Full(err) || string(key) == keyTerm {",
			Package:   "./raftstore/ballast",
			Run:       "^TestATermWaitsForSpace$",
			Assertion: "raft would panic",
		},
		{
			Name:      "ballast-leads-with-a-full-disk",
			Promise:   "disk",
			File:      "raftstore/ballast/ballast.go",
			Old:       "case s.Err == nil && s.Free < s.Floor():",
			New:       "case s.Err != nil && s.Free < s.Floor():",
			Package:   "./raftstore/ballast",
			Run:       "^TestBelowTheFloorAPeerDoesNotLead$",
			Assertion: "<nil>",
		},
	}
}

// healthMutants break what doctor says of hosts and of whom they reach.
func healthMutants() []Mutant {
	return []Mutant{
		{
			Name:      "doctor-cut-without-direction",
			Promise:   "doctor",
			File:      "doctor/ports.go",
			Old:       "case h.Peer == r.To && o.To == from.Peer && o.Error == \"\":",
			New:       "case h.Peer == r.To && o.To == from.Peer && o.Error != \"\":",
			Package:   "./doctor",
			Run:       "^TestEveryFaultIsFound$",
			Assertion: "a cut in one direction:",
		},
		{
			Name:      "doctor-blind-to-slow-disks",
			Promise:   "doctor",
			File:      "doctor/disk.go",
			Old:       "case w.MedianUS > beat/4:",
			New:       "case w.MedianUS > 3*beat:",
			Package:   "./doctor",
			Run:       "^TestEveryFaultIsFound$",
			Assertion: "slow: nothing was found",
		},
		{
			Name:      "doctor-takes-any-right-for-granted",
			Promise:   "doctor",
			File:      "failover/kube/rights.go",
			Old:       "return review.Status.Allowed, nil",
			New:       "return true, nil",
			Package:   "./failover/kube",
			Run:       "^TestAMissingRightIsNamed$",
			Assertion: "missing-right-is-named",
		},
		{
			Name:      "bundle-repeats-what-peers-let-slip",
			Promise:   "doctor",
			File:      "internal/supportbundle/files.go",
			Old:       "plain := f.redact.Text(string(text))",
			New:       "plain := string(text)",
			Package:   "./cli",
			Run:       "^TestABundleHoldsNoSecret$",
			Assertion: "bundle-holds-no-secret",
		},
		{
			Name:      "doctor-blind-to-other-configurations",
			Promise:   "doctor",
			File:      "app/marks.go",
			Old:       `Mark: fmt.Sprintf("%016x", marks[key]),`,
			New:       `Mark: fmt.Sprintf("%016x", len(key)),`,
			Package:   "./app",
			Run:       "^TestDoctorComparesConfigurations$",
			Assertion: "config-differs-is-found",
		},
		{
			Name:      "bundle-blind-to-what-the-peer-knows",
			Promise:   "doctor",
			File:      "app/bundle.go",
			Old:       "supportbundle.NewRedactor(b.secrets()...)",
			New:       "supportbundle.NewRedactor(b.secrets()[:0]...)",
			Package:   "./app",
			Run:       "^TestABundleOfAPeerHoldsNoSecret$",
			Assertion: "peer-bundle-holds-no-secret",
		},
	}
}

// hostMutants break what doctor says of a host that cannot serve machines.
func hostMutants() []Mutant {
	return []Mutant{
		{
			Name:      "doctor-blind-to-a-stopped-dhcp-server",
			Promise:   "doctor",
			File:      "doctor/dhcp.go",
			Old:       "case !f.DHCP.Listening:",
			New:       "case !f.DHCP.Listening && f.Offline:",
			Package:   "./doctor",
			Run:       "^TestEveryFaultIsFound$",
			Assertion: "dnsmasq is stopped:",
		},
		{
			Name:      "doctor-takes-the-own-address-for-floating",
			Promise:   "doctor",
			File:      "doctor/floating.go",
			Old:       "return p.Addr() == a && !p.IsSingleIP()",
			New:       "return p.Addr() == a && p.IsSingleIP()",
			Package:   "./doctor",
			Run:       "^TestWhatIsRight$",
			Assertion: "the floating IP as Trivet puts it there:",
		},
		{
			Name:      "doctor-says-the-same-of-each-host",
			Promise:   "doctor",
			File:      "doctor/finding.go",
			Old:       "return o.Check == f.Check && o.Severity == f.Severity && o.Text == f.Text && slices.Equal(o.Remedy, f.Remedy)",
			New:       "return o.Check == f.Check && o.Severity == f.Severity && o.Text == f.Text && slices.Equal(o.Remedy, f.Remedy) && o.Peer == f.Peer",
			Package:   "./doctor",
			Run:       "^TestSameFindingOfSeveralHosts$",
			Assertion: "same-finding-of-several-hosts:",
		},
	}
}
