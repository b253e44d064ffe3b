// Package leaderrpc carries requests of a peer's lease service to the leader's over
// the peers' port: the steps of its holders, which the leader commits together with
// its own, and the question whether a lease that a client waits for has ended.
package leaderrpc
