// Package fsm is the replicated state: a function of the log and of nothing else.
//
// [State.Apply] takes one committed entry and returns its result; two peers
// that applied the same entries hold the same state, byte for byte ([View.Hash]).
// The package therefore reads no clock and makes no randomness, starts no
// goroutine, and never lets the order of a map be seen. Time comes with the
// entries (cluster time, docs/design.md#time).
//
// A State belongs to one goroutine. A [View] is an immutable copy that costs
// nothing to take; any number of goroutines may read it. Slices inside the
// values that a View returns are shared and must not be changed.
//
// DESIGN.md tells the flow, the decisions and the roads not taken.
package fsm
