// Package labtest attacks real trivet processes on one host: three peers with
// their own data directories and ports of the loopback interface, killed,
// stopped, frozen and fed with nonsense. Its tests carry the build tag e2e
// ("make e2e"); some need root, for mounts.
//
// A test speaks in verbs of a Lab and its Peers. It never sleeps: it waits for
// what must come true and fails, with the output of every process, when it
// does not in time.
package labtest
