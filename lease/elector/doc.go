// Package elector answers other programs that ask who leads: the endpoint of
// Kubernetes' leader-elector, {"name": "<identity>"} on every path
// (docs/contract.md#elector). Witness finds out who leads, Endpoint answers.
//
// Callers act on the answer, so it follows three rules.
//
//   - A name was confirmed by a quorum, and may be given for a time (WitnessOptions.Bound)
//     from *before* the quorum was asked, on a clock that counts while the machine
//     sleeps. Afterwards the name is "".
//   - A follower asks the leader for the index of a linearizable read, which the
//     leader gives only after it has proved its leadership, and looks into its own
//     state as of that index.
//   - A new name is not given before every earlier name is over. A leader may be
//     elected the moment after its predecessor was confirmed; a peer that sees a new
//     token waits so long from then. So of all names that are given at one
//     moment, by any peers, no two differ.
//
// The third rule costs this time after each change of leader.
//
// An answer is compared with the clock again in the moment in which its bytes go to
// the kernel. A process that is stopped while it answers, and continued later, breaks
// the connection instead. What remains is the time between reading the clock and the
// system call; no process can close that gap.
package elector
