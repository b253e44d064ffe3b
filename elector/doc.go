// Package elector tells other programs who leads: the endpoint that the
// leader-elector of Kubernetes' contrib had, {"name": "<identity>"} on every path
// (docs/contract.md#elector).
//
// Three rules make the answer one to act on.
//
//   - A name is confirmed by a quorum, and may be said for a bound from *before* the
//     quorum was asked. The bound is the election timeout; the clock counts while the
//     machine sleeps. Afterwards the name is "", whatever this process remembers.
//   - A follower takes nobody's word for it. It asks the leader for the index of a
//     linearizable read, which the leader gives only after it has proved itself, and
//     looks into its own state as of that index.
//   - Who is new is not named before every earlier name is over. A leader may be
//     elected the moment after its predecessor was confirmed; whoever sees a new token
//     waits a bound, from when it saw it, before it says the name. Then of all names
//     that are said at one moment, by whichever peers, no two differ.
//
// The third rule costs a bound after each change and is why pollers that ask every
// five seconds are never two for longer than five seconds.
//
// An answer is compared with the clock once more in the moment in which its bytes go
// to the kernel, so that a process which is stopped while it answers and goes on later
// breaks the connection instead. What remains is the time between reading the clock
// and the system call; nothing in a process can close it.
package elector
