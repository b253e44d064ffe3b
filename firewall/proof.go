package firewall

import "time"

// recentProof is how old a proof may be when an address is renewed: raft's heartbeats are at
// most so far apart, with raft.timing normal, and need not be asked for.
const recentProof = 60 * time.Millisecond

// heldLease is what the guard knows of the kernel's element.
type heldLease struct {
	open    bool      // it is in force, as far as we know
	swapped time.Time // when its newest write had ended
}

// proofFrom returns the moment since which leadership has to be proven. What is opened or
// taken needs a proof that begins now. What is held may rest on heartbeats of raft that a
// majority has acknowledged already: those that were sent after the element was written
// that is swapped, and short enough ago for the address.
func (w *watch) proofFrom(door, address bool) time.Time {
	now := time.Now()
	if door && !w.open || address && !w.held {
		return now
	}
	t0 := now.Add(-recentProof)
	if door && (!address || t0.Before(w.swapped)) {
		return w.swapped
	}
	return t0
}
