// Package sidecar is a candidate beside another program, as leader-elector was: it
// holds a lease of the cluster and says who holds it.
//
// Its own name it says by its own lease alone: until the deadline that counts from
// before the lease was asked for, a third of the ttl before the cluster may give it to
// another. What a server says of the lease never makes it say its own name, since that
// may be the grant of a predecessor, or one that is given up here. Others it names as
// they were read, from before the question, for what remained and half a ttl at most.
package sidecar
