// Package cluster connects peers: the port that they share, the session that each
// keeps in the log, joining and leaving, promotion of joiners, renewal of
// certificates, contact between peers, and gossip (docs/design.md#membership).
//
// Access decides whom a connection lets in. Session proposes commands under request
// IDs and repeats them until there is a definite answer; Forwarder carries them to
// the leader. Membership is the leader's duty that makes raft's configuration follow
// the members in the log.
package cluster
