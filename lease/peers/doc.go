// Package peers carries what a peer's lease service asks the leader's over the peers'
// port: the steps of its holders, which the leader commits together with its own, and
// whether a lease that somebody waits for is over.
package peers
