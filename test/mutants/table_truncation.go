package main

// truncationMutants let raft go on with a last index that its log does not have.
func truncationMutants() []Mutant {
	return []Mutant{
		{
			Name: "lost-last-index-not-seen", Promise: "1", File: "raftstore/truncation/truncation.go",
			Old:     "	if last == end {\n",
			New:     "	if false && last == end {\n",
			Package: "./raftstore/truncation", Run: "^TestLossOfTheLastIndexIsTold$", Assertion: "last-index-lost:",
		},
		{
			Name: "lost-last-index-ends-no-process", Promise: "1", File: "app/core.go",
			Old:     "	o.Raft.Storage.Log = truncation.Watch(",
			New:     "	_ = truncation.Watch(",
			Package: "./test/simtest", Run: "^TestFailedWriteAfterADeletionEndsTheProcess$", Assertion: "the voter ends: not within",
		},
		{
			Name: "entries-deleted-for-others-that-do-not-fit", Promise: "1", File: "raftstore/ballast/guard.go",
			Old:     "err != nil && beginning > 0 && first > beginning {\n",
			New:     "false && err != nil && beginning > 0 && first > beginning {\n",
			Package: "./raftstore/ballast", Run: "^TestAFullDiskIsOutlived$", Assertion: "last-index-lost:",
		},
	}
}
