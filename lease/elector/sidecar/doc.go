// Package sidecar is a candidate in an election next to another program, as
// leader-elector was: it holds a lease of the cluster and answers who holds it.
//
// It gives its own name only while its own lease lasts: until a deadline that counts
// from before the lease was requested and lies a third of the ttl before the cluster
// may grant the lease to another candidate. It never gives its own name because of what
// a server says about the lease, since that may be the grant of a predecessor, or one
// that is being released. It gives the names of others as they were read, from before
// the question, for the remaining time and at most half a ttl.
package sidecar
