// Package site is a whole site in one process: three peers with real raft over
// mutual TLS on loopback and logs on disk, in front of a simulated Ironic and
// simulated machines. It introspects every machine through changing peers,
// kills whichever peer leads as often as it is told to, starts it again, and
// counts what became of each node.
//
// Each host's packet filter is a model in memory (hostkernel.Model) that outlives
// the peer's process: the lease of a peer that was killed ends by itself. A machine
// boots when a host lets it through, and two open hosts at once fail the run.
//
// The load speaks to the peers over their REST API, as operators do. Only three
// things need the process: killing a peer, measuring how long no write was taken
// (a command through a survivor's session), and the models.
package site
