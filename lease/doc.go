// Package lease lends what Trivet has to other programs: leases with fencing
// tokens, small values that only the holder of a lease may write, and groups of
// instances among which keys are shared out (docs/design.md#leases).
//
// A lease is held by one holder at a time, in cluster time. Its token is the
// position in the log of the entry that granted it, so that of two holders the one
// with the higher token is the later one, over leader changes, restarts and
// restores. Nothing here makes a holder stop when its time is over: it counts for
// itself, from before it asked, and shows its token to whatever it changes.
package lease
