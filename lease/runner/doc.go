// Package runner runs a program under a lease, and sees to it that the program has ended
// when the lease may be another's.
//
// Two processes share the work. The runner, Run, acquires the lease, renews it,
// forwards signals and releases it. The guard, Guard, is started by the runner in a
// session of its own and starts the program, in a process group of its own, as its
// child. Through a pipe the guard is told each new deadline. At the deadline it sends
// TERM to the group, and KILL half a margin later, so that another half is left before
// the cluster may lend the lease to somebody else. So nothing that happens to one
// process lets the program run on:
//
//   - the runner is stopped: the guard hears of no new deadline, and ends the program
//     at the last one it heard of;
//   - the runner dies: the guard finds the pipe's end and ends the program at once,
//     for nobody renews the lease or would release it;
//   - the guard dies: the kernel kills the program, whose parent it was, and the
//     runner, to which all its descendants fall, kills the rest;
//   - the guard is stopped: the runner kills it three quarters of a margin after the
//     deadline, and then as above;
//   - the machine sleeps: the guard waits on a timer of CLOCK_BOOTTIME, which went on
//     meanwhile and fires at once when the machine wakes up.
//
// The program is watched by its parent because a parent alone may kill by number: the
// number of a process is not used again before the parent has seen its end, nor that
// of a process group before its leader's. A descendant that leaves the group, with
// setsid or as a daemon, falls to the guard (PR_SET_CHILD_SUBREAPER), which kills it
// with the rest. What other users run for the program, as through sudo, cannot be
// killed so, nor what a service manager starts on its behalf.
package runner
