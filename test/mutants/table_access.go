package main

// accessMutants let peers and operators act on the peers' port who have no right
// to.
func accessMutants() []Mutant {
	return []Mutant{
		{
			Name:      "raft-believes-the-sender's-word",
			Promise:   "1",
			File:      "raftstore/host/transport_limits.go",
			Old:       "	err := sentBy(peer, command)\n	if err == nil {",
			New:       "	err := sentBy(peer, command)\n	if err != nil || err == nil {",
			Package:   "./raftstore/host",
			Run:       "^TestForgedRequestsDoNotReachRaft$",
			Assertion: "identity-bound:",
		},
		{
			Name:      "removed-peer-keeps-its-connections",
			Promise:   "1",
			File:      "fsm/member_removed.go",
			Old:       "	p.removed.put([]byte(m.ID), RemovedPeer{ID: m.ID, Name: m.Name, At: at})",
			New:       "	_ = m",
			Package:   "./test/attacktest",
			Run:       "^TestRemovedPeerCommandsNobody$",
			Assertion: "removed-is-cut-off:",
		},
		{
			Name:      "raft-of-a-removed-peer",
			Promise:   "1",
			File:      "cluster/access.go",
			Old:       "	v, _ := a.view()\n	if err := a.gone(peer); err != nil {",
			New:       "	v, ok := a.view()\n	if ok {\n		return nil\n	}\n	if err := a.gone(peer); err != nil {",
			Package:   "./cluster",
			Run:       "^TestWhoMaySpeakRaft$",
			Assertion: "removed-speaks-no-raft:",
		},
		{
			Name:      "removed-peer-refused-while-raft-counts-it",
			Promise:   "7",
			File:      "cluster/access.go",
			Old:       "	named := func(s raftstore.Server) bool { return s.ID == peer }",
			New:       "	named := func(s raftstore.Server) bool { return s.ID == \"\" }",
			Package:   "./cluster",
			Run:       "^TestRemovedPeerThatRaftCounts$",
			Assertion: "removed-counts-in-raft:",
		},
		{
			Name:      "old-state-believed",
			Promise:   "1",
			File:      "cluster/access.go",
			Old:       "	if !(member || leaving) || !current {",
			New:       "	if !member && !leaving && !current {",
			Package:   "./cluster",
			Run:       "^TestWhoMaySpeakRaft$",
			Assertion: "missed-removal:",
		},
		{
			Name:      "revoked-operator-keeps-its-connections",
			Promise:   "1",
			File:      "cluster/access.go",
			Old:       "	err := a.refuses(o.id, o.issued)\n	if o.id.Role == pki.RolePeer {",
			New:       "	err := a.refuses(o.id, o.issued)\n	if o.id.Role != 0 {",
			Package:   "./test/attacktest",
			Run:       "^TestRevokedOperatorIsCutOff$",
			Assertion: "revoked-is-cut-off:",
		},
	}
}

// connectionMutants let connections live on whose owner may not call any more.
func connectionMutants() []Mutant {
	return []Mutant{
		{
			Name: "certificates-of-open-connections-are-not-judged", Promise: "1", File: "cluster/access.go",
			Old:     "			case <-certificates.C:\n				a.judgeCertificates()\n",
			New:     "			case <-certificates.C:\n",
			Package: "./cluster", Run: "^TestOpenConnectionsAreJudgedAgain$", Assertion: "judged-again: certificate-ended:",
		},
		{
			Name: "open-connections-outlive-a-removal", Promise: "1", File: "cluster/access.go",
			Old:     "				same, seen = now.SameRights(seen), now\n",
			New:     "				same, seen = same || now.SameRights(seen), now\n",
			Package: "./cluster", Run: "^TestOpenConnectionsAreJudgedAgain$", Assertion: "judged-again: removed:",
		},
		{
			Name: "open-connections-outlive-a-configuration", Promise: "1", File: "cluster/access.go",
			Old:     "				same = false\n",
			New:     "				same = true\n",
			Package: "./cluster", Run: "^TestOpenConnectionsAreJudgedAgain$", Assertion: "judged-again: removed, and raft's configuration follows:",
		},
	}
}

// floodMutants let strangers cost more than their share.
func floodMutants() []Mutant {
	return []Mutant{
		{
			Name:      "unknown-token-becomes-an-entry",
			Promise:   "10",
			File:      "cluster/admit.go",
			Old:       "	if !hasToken(v, hash) {\n		return errUnknownToken",
			New:       "	if !hasToken(v, hash) && ctx.Err() != nil {\n		return errUnknownToken",
			Package:   "./cluster",
			Run:       "^TestUnknownTokensCostNoEntry$",
			Assertion: "no-entry:",
		},
		{
			Name:      "body-read-in-the-slot-without-a-deadline",
			Promise:   "10",
			File:      "cluster/admit.go",
			Old:       "	req, err := a.read(w, r)\n	if err == nil {",
			New:       "	place, err := a.by.Admit(r.Context(), admission.Join, admission.Caller{Source: source})\n	if err != nil {\n		refuseJoin(w, joinStatus(err), err)\n		return\n	}\n	req, err := a.read(w, r)\n	place.Leave()\n	if err == nil {",
			Package:   "./cluster",
			Run:       "^TestUnsentBodiesHoldUpNoJoin$",
			Assertion: "body-before-slot:",
		},
		{
			Name:      "gossip-read-to-its-end-before-the-key",
			Promise:   "10",
			File:      "cluster/gossip_transport.go",
			Old:       "	return &gossipStream{Conn: conn, left: maxGossipBytes, leave: held",
			New:       "	return &gossipStream{Conn: conn, left: 1 << 30, leave: held",
			Package:   "./cluster",
			Run:       "^TestGossipFloodIsNotRead$",
			Assertion: "gossip-bounded:",
		},
	}
}
