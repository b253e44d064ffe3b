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
			Package:   "./internal/simtest",
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
