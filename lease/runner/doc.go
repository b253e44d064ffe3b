// Package runner runs a program under a lease, and makes sure that the program has ended
// before the lease may be granted to another holder.
//
// Two processes share the work. The runner, Run, acquires the lease, renews it, forwards
// signals and releases it. The guard, Guard, is started by the runner in a session of its
// own and starts the program, in a process group of its own, as its child. The runner sends
// each new deadline to the guard through a pipe. At the deadline the guard sends TERM to the
// group, and KILL half a margin later, so that another half is left before the cluster may
// grant the lease again. No fault of one process lets the program run on:
//
//   - the runner is stopped: the guard receives no new deadline, and ends the program at the
//     last one;
//   - the runner dies: the guard finds the end of the pipe and ends the program at once,
//     because no process renews or releases the lease any more;
//   - the guard dies: the kernel kills the program, whose parent it was, and the runner, to
//     which all its descendants are reparented, kills the rest;
//   - the guard is stopped: the runner kills it three quarters of a margin after the
//     deadline, a tenth of a second after the lease was lost to another, and then as above;
//   - the machine sleeps: the guard waits on a timer of CLOCK_BOOTTIME, which fires at once
//     when the machine wakes up.
//
// The program is watched by its parent because only a parent may kill safely by number: the
// number of a process is not used again before its parent has reaped it, nor that of a
// process group before its leader was reaped. A descendant that leaves the group, with
// setsid or as a daemon, is reparented to the guard (PR_SET_CHILD_SUBREAPER), which kills it
// with the rest. Processes that other users run for the program, as through sudo, and those
// that a service manager starts on its behalf are out of reach.
package runner
