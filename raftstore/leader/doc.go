// Package leader runs duties exactly while this peer leads, and takes leadership away from
// a peer that cannot lead well: one whose disk hangs or whose clock is wrong
// (docs/design.md#leadership, docs/design.md#proof).
//
// Runner turns raft's role changes into leaderships, one at a time. A Duty is a function
// that runs in a context which ends with the leadership; it knows nothing of raft and acts
// under an Authority, which proves leadership and proposes under its token. Fitness decides
// whether this peer may lead, Watchdog notices a hung disk, StepDown hands leadership on.
package leader
