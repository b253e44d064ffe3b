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
// domain, a value at the head of the subject's file: its commands with their numbers, its
// tables, its invariants and what ends by itself. Domains that stand apart are packages
// below this one, whose comments name their commands: introspection, leases, kubestate,
// zones, relays, ruleset and nodesync. The commands of this package, by subject:
//
//   - cluster and leadership: Found, Lead, Probe
//   - peers: OpenSession, RenewSession, EndSession, PutMember, RemoveMember, MoveMember,
//     Exclude, Observe, AddJoinToken, UseJoinToken, RevokeJoinToken, Rejoin, FormerHeard
//   - PXE filter and address: PutPorts, PassOpen, PassClosed, AddressTaken, AddressReleased
//   - events that no other command tells: ReportEvents
//   - keys and settings: PutSetting, DeleteSetting, RotateGossipKey, ConfirmGossipKeys,
//     AdvanceGossipKeys, NoteOperator, RevokeOperator
//
// A View has the reading side of each, that of the packages as their Tables have it.
// Refound and Adopt are no commands: they rewrite a snapshot when a cluster is founded
// again (docs/design.md#founding).
//
// DESIGN.md explains the flow of an entry, the decisions, and what was rejected.
package fsm
