// Package simtest simulates hosts in virtual time: three or five real peers
// run inside one testing/synctest bubble, and a test does to them what happens
// to hosts. This is the bottom layer, on which whole peers are built:
//
//   - Network and its Transport carry raft's requests, and Call everything
//     else, over links that can be cut in one or both directions, be slow, and
//     lose or repeat messages;
//   - Gate stops a process as SIGSTOP does;
//   - Disk keeps log, votes and snapshots across crashes, and can be slow,
//     full, read-only or hung.
//
// Around them stand models of what peers act on, which judge every act at the moment
// of its effect: Kernel for doors and addresses, Site for Ironic and its machines,
// KubeSite for Kubernetes, its machines and their power.
//
// A process is killed in this order: close its Transport, so that nothing gets
// out any more; Crash its Disk; Resume its Gate; shut it down and wait.
//
// Rules of the bubble, learnt the hard way. A goroutine that waits for a mutex
// stops the clock, so nothing here waits while it holds one, and a logger that
// locks must not stand in front of Gate.Handler. A goroutine that outlives its
// process fails the test. Everything with a channel in it must be made inside
// the bubble. Raft draws its time-outs from the global generator, so that a seed
// fixes the faults but not the elections.
package simtest
