// Package ballast lets a peer outlive a full disk.
//
// A peer whose log cannot be written costs one vote, which the others can spare. But a peer
// must be able to write its term: raft panics otherwise (raft.setCurrentTerm), and the service
// manager restarts the process again and again while the disk is full. So a file in the data
// directory reserves space. When the disk fills, the file is deleted: terms and votes fit
// into the space that it leaves, the log takes no entries until there is space again, and
// then the file is created again.
//
// The free space is watched before it comes to that: below a floor the peer refuses to lead.
package ballast
