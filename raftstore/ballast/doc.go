// Package ballast lets a peer outlive a full disk.
//
// A log that cannot be written costs its peer a vote, which the others can
// spare. What a peer cannot do without is a term that it may note: raft panics
// when it cannot (raft.setCurrentTerm), the service manager starts the process
// again, and that goes on for as long as the disk is full. So there is a file in
// the data directory that holds nothing but space. When the disk fills it is
// dropped: terms and votes fit into what it leaves, the log takes no entries
// until there is space again, and then the ballast is laid anew.
//
// Before it comes to that the free space is watched: below a floor the peer
// would rather not lead.
package ballast
