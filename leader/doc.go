// Package leader runs duties exactly while this peer leads, and takes
// leadership away from a peer that cannot lead well: one whose disk hangs or
// whose clock is wrong (docs/design.md#leadership, docs/design.md#proof).
//
// A duty is a function that is run inside a context which ends with the
// leadership; it knows nothing of raft and holds an Authority to act under.
package leader
