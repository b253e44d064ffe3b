// Package fsm is the replicated state: a function of the log and of nothing else.
//
// State.Apply takes one committed entry and returns its result; two peers that applied the
// same entries hold the same state, byte for byte (View.Hash). The package therefore reads
// no clock and no randomness, starts no goroutine, and never lets the order of a map be
// seen. Time comes with the entries (cluster time, docs/design.md#time).
//
// A State belongs to one goroutine. A View is an immutable copy that costs nothing to take;
// any number of goroutines may read it. Slices inside the values that a View returns are
// shared and must not be changed.
//
// # Finding one's way
//
// Every change of the state is a Command: a struct with a Validate method, which Encode
// writes and Decode reads. What the log, snapshots, Check and Dump know of a subject is a
// domain, a value at the head of the subject's package: its commands with their numbers, its
// tables, its invariants and what ends by itself. The domains are packages below this one,
// whose comments name their commands: membership (peers and their sessions), operators,
// introspection, ruleset, expectations, relays, nodesync, ironicports, doors and boots (the PXE
// filter, the floating IP, how machines boot), leases, settings, deliveries, kubestate and zones. The
// commands of this package are those of the machine itself: Found, Lead, Probe, and ReportEvents for
// events that no other tells.
//
// A View has the reading side of each, as its Tables have it.
// Refound and Adopt are no commands: they rewrite a snapshot when a cluster is founded
// again (docs/design.md#founding).
//
// DESIGN.md explains the flow of an entry, the decisions, and what was rejected.
package fsm
