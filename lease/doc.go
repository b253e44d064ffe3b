// Package lease lends leases with fencing tokens to other programs, stores small values that
// only the holder of a lease may write, and keeps groups of instances among which keys are
// shared out (docs/design.md#leases, docs/contract.md#leases).
//
// One holder has a lease at a time, in cluster time. Its token is the position in the log of
// the entry that granted it: of two grants the one with the higher token is the later one,
// over leader changes, restarts and restores. This package does not stop a holder whose
// lease is over. A holder counts its own deadline from before it asked, and sends its token
// with every change that it makes.
package lease
