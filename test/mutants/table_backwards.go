package main

// backwardsMutants break that a follower keeps what it has applied.
func backwardsMutants() []Mutant {
	return []Mutant{
		{
			Name:    "full-disk-sets-a-follower-back",
			Promise: "1",
			File:    "raftstore/transport.go",
			Old: `			if t.self.Answer(rpc) {
				continue
			}
			rpc = t.self.Watch(rpc, t.stop)
`,
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestFullDiskDoesNotSetAFollowerBack$",
			Assertion: "applied-goes-back:",
		},
		{
			Name:      "older-snapshot-installed",
			Promise:   "1",
			File:      "raftstore/backwards/backwards.go",
			Old:       "req.LastLogIndex > f.Applied()",
			New:       "req.LastLogIndex > f.Applied()/2",
			Package:   "./raftstore/backwards",
			Run:       "^TestSnapshotThatBringsNothingIsNotInstalled$",
			Assertion: "answered: false",
		},
		{
			Name:      "failure-to-store-sends-the-leader-back",
			Promise:   "1",
			File:      "raftstore/backwards/backwards.go",
			Old:       "!at.Before(began)",
			New:       "at.Before(began)",
			Package:   "./raftstore/backwards",
			Run:       "^TestFailureToStoreIsAnError$",
			Assertion: "answer",
		},
		{
			Name:      "covered-entries-sent-to-raft",
			Promise:   "1",
			File:      "raftstore/aftersnapshot/aftersnapshot.go",
			Old:       "mended.Entries[0].Index <= newest[0].Index",
			New:       "mended.Entries[0].Index < 1",
			Package:   "./raftstore/aftersnapshot",
			Run:       "^TestEntriesThatASnapshotCovers$",
			Assertion: "covered-entries:",
		},
	}
}

// privateMutants break who is let in at the peers' port and at the socket.
func privateMutants() []Mutant {
	return []Mutant{
		{
			Name:      "admitted-meanwhile-told-removed",
			Promise:   "1",
			File:      "cluster/forward.go",
			Old:       "		_, member := now.Member(id.Peer)\n",
			New:       "		member := false\n",
			Package:   "./cluster",
			Run:       "^TestJoinerIsNotTakenForARemovedPeer$",
			Assertion: "admitted meanwhile",
		},
		{
			Name:      "lagging-leader-tells-removed",
			Promise:   "1",
			File:      "cluster/forward.go",
			Old:       "		case now.Index() < index:\n",
			New:       "		case index == 0 && now.Index() < index:\n",
			Package:   "./cluster",
			Run:       "^TestJoinerIsNotTakenForARemovedPeer$",
			Assertion: "the entry is not applied",
		},
		{
			Name:      "socket-made-for-all",
			Promise:   "audit",
			File:      "app/listen.go",
			Old:       "syscall.Fchmod(int(fd), 0o600)",
			New:       "syscall.Fchmod(int(fd), 0o666)",
			Package:   "./app",
			Run:       "^TestSocketIsMadePrivate$",
			Assertion: "the socket has mode",
		},
	}
}
