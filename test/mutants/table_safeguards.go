package main

import "slices"

// safeguardMutants take out safeguards that other safeguards hide: alone none of
// them opens a second door in a simulation.
func safeguardMutants() []Mutant {
	return slices.Concat(closingMutants(), callerMutants(), removedPeerMutants(), candidateMutants(), survivorMutants())
}

// closingMutants leave open what must be closed, or say that it is closed.
func closingMutants() []Mutant {
	const unit = "./firewall"
	return []Mutant{
		{
			Name: "failed-close-is-recorded", Promise: "2", File: "firewall/guard.go",
			Old:     "	if closed && w.recorded {\n",
			New:     "	if w.recorded {\n",
			Package: unit, Run: "^TestFailedCloseIsNotRecorded$", Assertion: "unconfirmed-close:",
		},
		{
			Name: "failed-release-is-recorded", Promise: "2", File: "firewall/guard.go",
			Old:     "	if closed && w.taken {\n",
			New:     "	if w.taken {\n",
			Package: unit, Run: "^TestFailedCloseIsNotRecorded$", Assertion: "unconfirmed-close:",
		},
		{
			Name: "late-address-stays", Promise: "2", File: "firewall/address.go",
			Old:     "late > 2*freshAddress {",
			New:     "late > 2000*freshAddress {",
			Package: unit, Run: "^TestLateAddressIsRemoved$", Assertion: "late-address:",
		},
		{
			Name: "start-leaves-the-door-open", Promise: "2", File: "firewall/guard.go",
			Old:     "	return errors.Join(append(errs, g.o.Lease.Shut(ctx))...)\n",
			New:     "	return errors.Join(errs...)\n",
			Package: unit, Run: "^TestCloseAtStart$", Assertion: "close-at-start:",
		},
		{
			Name: "start-leaves-the-address", Promise: "2", File: "firewall/guard.go",
			Old:     "		errs = append(errs, g.o.Address.Remove(ctx))\n",
			New:     "		errs = append(errs, ctx.Err())\n",
			Package: unit, Run: "^TestCloseAtStart$", Assertion: "close-at-start:",
		},
		{
			Name: "process-starts-without-closing", Promise: "2", File: "app/core.go",
			Old:     "	closeDoor(o)\n	last, err",
			New:     "	last, err",
			Package: "./test/simtest", Run: "^TestRestartedProcessClosesWhatItFinds$", Assertion: "close-at-start:",
		},
	}
}

// callerMutants let callers in that no certificate, cluster or token vouches for.
func callerMutants() []Mutant {
	const unit = "./cluster"
	return []Mutant{
		{
			Name: "raft-without-a-certificate", Promise: "1", File: "cluster/port.go",
			Old:     "pki.Protocol{Name: protocolRaft}",
			New:     "pki.Protocol{Name: protocolRaft, Anonymous: true}",
			Package: unit, Run: "^TestRaftDemandsTheRightCertificate$", Assertion: "raft-needs-a-certificate:",
		},
		{
			Name: "any-peer-answers-a-call", Promise: "1", File: "cluster/access.go",
			Old:     "pki.ClientTLS(a.end, peer, protocol)",
			New:     "pki.ClientTLS(a.end, \"\", protocol)",
			Package: unit, Run: "^TestRaftDemandsTheRightCertificate$", Assertion: "raft-needs-the-peer:",
		},
		{
			Name: "gossip-of-another-cluster", Promise: "1", File: "cluster/gossip.go",
			Old:     "	if meta.Cluster != g.opts.Cluster {\n",
			New:     "	if meta.Cluster == \"\" {\n",
			Package: unit, Run: "^TestGossipOfAnotherCluster$", Assertion: "another-cluster:",
		},
		{
			Name: "gossip-keeps-a-higher-incarnation-to-itself", Promise: "2", File: "cluster/gossip.go",
			Old:     "	if meta.Incarnation > g.opts.Incarnation {\n",
			New:     "	if meta.Incarnation > g.opts.Incarnation+1 {\n",
			Package: unit, Run: "^TestGossipTellsAHigherIncarnation$", Assertion: "higher-incarnation:",
		},
		{
			Name: "gossip-of-another-incarnation", Promise: "2", File: "cluster/gossip.go",
			Old:     "	if meta.Incarnation != g.opts.Incarnation {\n",
			New:     "	if meta.Incarnation == 0 {\n",
			Package: unit, Run: "^TestGossipTellsAHigherIncarnation$", Assertion: "higher-incarnation:",
		},
		{
			Name: "forwarded-token-accepted", Promise: "3", File: "raftstore/propose.go",
			Old:     "	if l == nil || !h.Token.IsZero() {\n",
			New:     "	if l == nil {\n",
			Package: "./test/simtest", Run: "^TestForwardedTokenIsRefused$", Assertion: "forwarded-token:",
		},
		{
			Name: "connection-revoked-in-the-same-second", Promise: "1", File: "cluster/access.go",
			Old:     "issued.Unix() <= o.Revoked",
			New:     "issued.Unix() < o.Revoked",
			Package: unit, Run: "^TestRevokedWithinTheSameSecond$", Assertion: "same-second: a connection",
		},
		{
			Name: "call-revoked-in-the-same-second", Promise: "1", File: "cluster/forward.go",
			Old:     "issued <= o.Revoked",
			New:     "issued < o.Revoked",
			Package: unit, Run: "^TestRevokedWithinTheSameSecond$", Assertion: "same-second: a call",
		},
		{
			Name: "certificate-issued-in-the-revoked-second", Promise: "1", File: "fsm/member_operator.go",
			Old:     "	if c.Issued <= o.Revoked {\n",
			New:     "	if c.Issued < o.Revoked {\n",
			Package: "./fsm", Run: "^TestOperatorsAreRevoked$", Assertion: "a certificate of the revoked second",
		},
	}
}

// removedPeerMutants do not tell a peer that it was removed.
func removedPeerMutants() []Mutant {
	const unit = "./cluster"
	return []Mutant{
		{
			Name: "removed-peer-not-told-by-the-port", Promise: "1", File: "cluster/forward.go",
			Old:     "		return fmt.Errorf(\"%w: %s\", ErrNotMember, body)\n",
			New:     "		return fmt.Errorf(\"%v: %s\", ErrNotMember, body)\n",
			Package: unit, Run: "^TestOnlyTheLeaderTellsAPeerThatItIsRemoved$", Assertion: "want ErrNotMember",
		},
		{
			Name: "removed-peer-opens-sessions-for-ever", Promise: "1", File: "cluster/session.go",
			Old:     "	if errors.Is(err, ErrNotMember) {\n		s.opts.Removed()\n	}\n",
			New:     "",
			Package: unit, Run: "^TestRemovedPeerIsToldAtItsSession$", Assertion: "removed-is-told:",
		},
		{
			Name: "removed-peer-refused-by-the-log-goes-on", Promise: "1", File: "cluster/session.go",
			Old:     "		case fsm.Refused:\n			s.opts.Removed()\n",
			New:     "",
			Package: unit, Run: "^TestRemovedPeerIsToldAtItsSession$", Assertion: "removed-is-told:",
		},
		{
			Name: "removed-peer-without-a-leader-not-told", Promise: "1", File: "app/removed_check.go",
			Old:     "		if errors.Is(err, cluster.ErrNotMember) {\n",
			New:     "		if errors.Is(err, cluster.ErrNotMember) && srv.ID == o.self {\n",
			Package: "./app", Run: "^TestRemovedPeerWithoutALeaderLearnsIt$", Assertion: "removed-is-told:",
		},
		{
			Name: "removed-peer-does-not-ask", Promise: "1", File: "app/core.go",
			Old:     "	c.rest.Go(func() { lost.run(ctx, removed) })\n",
			New:     "	_, _ = lost, removed\n",
			Package: "./test/simtest", Run: "^TestRemovedWhileDownIsTold$", Assertion: "removed-is-told:",
		},
	}
}

// candidateMutants let peers lead, or be handed leadership, that cannot.
func candidateMutants() []Mutant {
	const unit = "./raftstore/leader"
	return []Mutant{
		{
			Name: "hung-disk-leads-at-once", Promise: "1", File: "raftstore/leader/fitness.go",
			Old:     "!at.IsZero() && now.Sub(at) < refuseAfterDisk {",
			New:     "!at.IsZero() && f.stuck {",
			Package: unit, Run: "^TestDiskTroubleOutlastsItself$", Assertion: "stands-aside:",
		},
		{
			Name: "failed-disk-leads-at-once", Promise: "1", File: "raftstore/leader/fitness.go",
			Old:     "err != nil && now.Sub(at) < refuseAfterDisk {",
			New:     "err != nil && now.Before(at) {",
			Package: unit, Run: "^TestDiskTroubleOutlastsItself$", Assertion: "stands-aside:",
		},
		{
			Name: "hung-disk-not-reported", Promise: "1", File: "raftstore/leader/watchdog.go",
			Old:     "	w.hung(on)\n",
			New:     "	w.hung(false)\n",
			Package: unit, Run: "^TestThawedDiskEndsNoProcess$", Assertion: "hung-is-reported:",
		},
		{
			Name: "stuck-write-never-exits", Promise: "1", File: "raftstore/leader/watchdog.go",
			Old:     "	if muted > StuckLimit && stuck > StuckLimit {\n",
			New:     "	if muted > StuckLimit && stuck > 1000*StuckLimit {\n",
			Package: unit, Run: "^TestStuckWriteEndsTheProcess$", Assertion: "stuck-write-exits: not within",
		},
		{
			Name: "leadership-to-a-silent-voter", Promise: "1", File: "raftstore/leader/stepdown.go",
			Old:     "srv.ID != self && applied[srv.ID] > 0 {",
			New:     "srv.ID != self {",
			Package: unit, Run: "^TestLeadershipGoesToALiveVoter$", Assertion: "live-successor:",
		},
		{
			Name: "leadership-to-a-voter-that-refuses", Promise: "1", File: "raftstore/leader/stepdown.go",
			Old:     "		if s.Refuses == \"\" && view",
			New:     "		if view",
			Package: unit, Run: "^TestLeadershipGoesToALiveVoter$", Assertion: "live-successor:",
		},
		{
			Name: "refusal-never-lapses", Promise: "1", File: "raftstore/leader/fitness.go",
			Old:     "		return leaderlessLimit\n",
			New:     "		return 1000 * leaderlessLimit\n",
			Package: unit, Run: "^TestRefusalLapsesWithoutALeader$", Assertion: "refusal-lapses:",
		},
	}
}

// survivorMutants are safeguards that were taken out without a test's notice.
func survivorMutants() []Mutant {
	return []Mutant{
		{
			Name: "rejoin-at-another-members-address", Promise: "1", File: "fsm/member_former.go",
			Old:     "m.Name == f.Name || m.Address == c.Member.Address {",
			New:     "m.Name == f.Name {",
			Package: "./fsm", Run: "^TestRejoinAtAnotherMembersAddress$", Assertion: "rejoin-at-anothers-address:",
		},
		{
			Name: "own-state-counts-as-current-for-hours", Promise: "access", File: "cluster/freshness.go",
			Old:     "	currentFor = 10 * time.Second\n",
			New:     "	currentFor = 10 * time.Hour\n",
			Package: "./cluster", Run: "^TestStateIsCurrentForTenSeconds$", Assertion: "current-for: the state is still current",
		},
		{
			Name: "contested-address-is-taken", Promise: "2", File: "firewall/address.go",
			Old:     "	return \"it is in use by \" + mac\n",
			New:     "	return \"\"\n",
			Package: "./firewall", Run: "^TestContestedAddressIsNotTaken$", Assertion: "contested: taken or recorded",
		},
		{
			Name: "log-of-another-incarnation-is-opened", Promise: "2", File: "app/start.go",
			Old:     "(v.ClusterID() != p.id.Cluster || v.Incarnation() != p.id.Incarnation) {",
			New:     "v.ClusterID() != p.id.Cluster {",
			Package: "./app", Run: "^TestLogOfAnotherIncarnationIsNotOpened$", Assertion: "log-of-another: another incarnation: it was opened",
		},
	}
}
