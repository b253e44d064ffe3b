// Package dev is a whole site in one process: three peers with real raft over
// mutual TLS on loopback and logs on disk, in front of a simulated Ironic and
// simulated machines. It introspects every machine through changing peers,
// kills whichever peer leads as often as it is told to, starts it again, and
// counts what became of each node.
//
// It speaks to the peers as everybody does, over their REST API. Only two
// things need the process: killing a peer, and measuring how long nobody could
// write (a command through a survivor's session).
package dev
