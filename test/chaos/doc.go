// Package chaos judges three peers from outside: real processes on hosts of their own
// (test/labtest), clients that write down what they asked and were told (test/history),
// and faults of processes, networks, disks and clocks, two at once among them.
//
// TestChaos is the judge of what is promised: leases, values that are compared and set,
// introspections, events, and how old a stale read may be. TestSoak puts the load of a
// large site on the peers and wants memory, descriptors and files to level off.
// TestSlowSnapshot has a follower read a snapshot at 1 MB/s.
//
// What the environment says:
//
//	TRIVET_CHAOS=2h         for how long TestChaos strikes in all; half a minute by default
//	TRIVET_CHAOS_SEED=7     the seed of the first piece; the next has the next one
//	TRIVET_CHAOS_DIR=DIR    where pages of bad histories are written
//	TRIVET_SOAK=60m         for how long TestSoak loads; half a minute by default
//	TRIVET_SOAK_PLOT=FILE   where the plot of the 99th percentiles is written
//
// A long run is made of pieces of two minutes, each with a cluster and a seed of its own:
// it can be ended after any of them and resumed at the next seed. A seed gives the same
// faults, but not the same history: the processes are real.
//
// This kernel has no netem in some places, so that slow links are those of a token
// bucket with a queue of 0.8 s, and lossy ones those of a packet filter. No time namespace
// shifts the wall clock: the peers run a build of the product whose wall clock a file
// sets (labtest.StoppableBinary).
package chaos
