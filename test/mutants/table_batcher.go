package main

// batcherMutants send what must not be sent, and end what clients wait for.
func batcherMutants() []Mutant {
	const file, unit = "raftstore/batcher/batcher.go", "./raftstore/batcher"
	return []Mutant{
		{
			Name: "batch-ends-with-its-first-client", Promise: "leadership", File: file,
			Old:     "		if t.batch.clients == 0 {\n",
			New:     "		if t.batch.clients >= 0 {\n",
			Package: unit, Run: "^TestOneOfTwoGivesUp$", Assertion: "shared: the batch of c ended with b",
		},
		{
			Name: "withdrawn-call-is-sent", Promise: "leadership", File: file,
			Old:     "			t.batch.calls[t.index] = nil\n",
			New:     "",
			Package: unit, Run: "^TestGivingUp$", Assertion: "withdrawn-sent:",
		},
		{
			Name: "waiting-calls-without-bound", Promise: "bounds", File: file,
			Old:     "	if b.waiting+len(requests) > b.opts.MaxWaiting {\n",
			New:     "	if b.waiting > 2*b.opts.MaxWaiting {\n",
			Package: unit, Run: "^TestWaitingCallsAreBounded$", Assertion: "two calls more than there is room for",
		},
		{
			Name: "detached-call-is-withdrawn", Promise: "lease", File: file,
			Old:     "	if b.opts.Detached {\n",
			New:     "	if b.opts.Detached && b.closed {\n",
			Package: unit, Run: "^TestDetachedCallsAreSent$", Assertion: "want the cause alone: the call is sent",
		},
	}
}
