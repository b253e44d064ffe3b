package main

// rollbackMutants break how a peer learns that its disk was rolled back.
func rollbackMutants() []Mutant {
	const peers = "^Test(RolledBackPeerSpeaksNoRaft|SessionTellsOfARollback)$"
	return []Mutant{
		{
			Name: "progress-not-recorded", Promise: "1", File: "fsm/member_session.go",
			Old:       "	t.advance(s.Peer, c.Applied)\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestRolledBackDiskIsNoticed$",
			Assertion: "rollback-unnoticed:",
		},
		{
			Name: "progress-ends-with-the-session", Promise: "1", File: "fsm/member_session.go",
			Old:       "	t.requests.dropSession(id)\n",
			New:       "	t.requests.dropSession(id)\n	t.peers.progress.drop([]byte(s.Peer))\n",
			Package:   "./fsm",
			Run:       "^TestProgressIsRecorded$",
			Assertion: "progress-outlives-sessions",
		},
		{
			Name: "rolled-back-peer-votes", Promise: "1", File: "cluster/access.go",
			Old:       "	return a.vouched(peer)\n",
			New:       "	return nil\n",
			Package:   "./cluster",
			Run:       peers,
			Assertion: "a request of raft: <nil>",
		},
		{
			Name: "late-witness-not-asked", Promise: "1", File: "cluster/rollback.go",
			Old:       "	return a.witness(members[i])\n",
			New:       "	return nil\n",
			Package:   "./cluster",
			Run:       peers,
			Assertion: "late-witness:",
		},
	}
}

// falseAlarmMutants break that a peer with its own disk goes on.
func falseAlarmMutants() []Mutant {
	const (
		hosts = "./test/attacktest"
		peers = "^Test(RolledBackPeerSpeaksNoRaft|SessionTellsOfARollback)$"
	)
	return []Mutant{
		{
			Name: "own-reports-taken-for-a-rollback", Promise: "5", File: "cluster/rollback.go",
			Old:     "rolledBack(max(a.witnesses.own.Stored, a.applied()), r.Applied)",
			New:     "rolledBack(a.witnesses.own.Stored, r.Applied)",
			Package: "./cluster", Run: "^TestLateWitnessKnowsTheProcessItself$", Assertion: "false-alarm:",
		},
		{
			Name: "whole-disk-taken-for-rolled-back", Promise: "5", File: "cluster/rollback.go",
			Old:       "if applied <= stored {",
			New:       "if applied < stored {",
			Package:   "./cluster",
			Run:       peers,
			Assertion: "as_much_as_it_said",
		},
		{
			Name: "own-progress-taken-for-a-rollback", Promise: "5", File: "cluster/session.go",
			Old:       "	s.examined = true // from",
			New:       "	// from",
			Package:   "./cluster",
			Run:       peers,
			Assertion: "false-alarm:",
		},
		{
			Name: "clone-moves-its-host", Promise: "1", File: "app/start.go",
			Old:       "if p.access.RolledBack() == nil {",
			New:       "if ctx.Err() == nil {",
			Package:   hosts,
			Run:       "^TestCopyOfARunningHostStops$",
			Assertion: "clone-moves-the-host",
		},
	}
}

// silenceMutants break how connections between peers end when nothing answers.
func silenceMutants() []Mutant {
	return []Mutant{
		{
			Name:      "silent-connection-stays",
			Promise:   "5",
			File:      "cluster/port.go",
			Old:       "		d.Control = endWhenSilent\n",
			New:       "		d.Control = nil\n",
			Package:   "./cluster",
			Run:       "^TestSilentConnectionsEnd$",
			Assertion: "a dialled connection ends after 0 ms",
		},
		{
			Name:      "silent-caller-stays",
			Promise:   "5",
			File:      "cluster/port.go",
			Old:       "net.ListenConfig{KeepAlive: keepAlive, Control: endWhenSilent}",
			New:       "net.ListenConfig{KeepAlive: keepAlive}",
			Package:   "./cluster",
			Run:       "^TestSilentConnectionsEnd$",
			Assertion: "an accepted connection ends after 0 ms",
		},
		{
			Name:      "stalled-follower-cut-off",
			Promise:   "5",
			File:      "cluster/port.go",
			Old:       "if slices.Contains(conf.NextProtos, protocolHTTP) {",
			New:       "if slices.Contains(conf.NextProtos, protocolHTTP) || len(conf.NextProtos) > 0 {",
			Package:   "./cluster",
			Run:       "^TestSilentConnectionsEnd$",
			Assertion: "trivet-raft: a dialled connection ends",
		},
	}
}

// versionMutants break what a session of an older binary may do.
func versionMutants() []Mutant {
	const older = "^TestOlderBinaryOpensNoSession$"
	return []Mutant{
		{
			Name:      "session-lowers-the-version",
			Promise:   "8",
			File:      "fsm/member_session.go",
			Old:       "c.Version < at {",
			New:       "c.Version < 1 {",
			Package:   "./fsm",
			Run:       "^TestClusterVersionIsTheLeastOfAllMembers$",
			Assertion: "peers_test.go",
		},
		{
			Name:      "outdated-peer-goes-on",
			Promise:   "8",
			File:      "cluster/session.go",
			Old:       "			s.opts.Outdated(err)\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       older,
			Assertion: "outdated-peer-stops:",
		},
		{
			Name:      "outdated-peer-taken-for-removed",
			Promise:   "8",
			File:      "fsm/member_session.go",
			Old:       "return refuse(Outdated, ",
			New:       "return refuse(Refused, ",
			Package:   "./test/simtest",
			Run:       older,
			Assertion: "was told that it is no member",
		},
	}
}
