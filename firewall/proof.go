package firewall

import (
	"context"
	"errors"
	"slices"
	"time"
)

// recentProof is how old a proof may be when an address is renewed: raft's heartbeats are at
// most so far apart, with raft.timing normal, and need not be asked for.
const recentProof = 60 * time.Millisecond

// kernelElement is what the guard knows of an element of the kernel's.
type kernelElement struct {
	open    bool      // it is in force, as far as we know
	swapped time.Time // when its newest write had ended
}

// swap opens the lease for d, or holds it. It fails with ErrLapsed when what it swaps
// from has ended: then it is not open.
func (h *kernelElement) swap(ctx context.Context, kernel Swap, d time.Duration) error {
	verb := kernel.Hold
	if !h.open {
		verb = kernel.Open
	}
	err := verb(ctx, d)
	switch {
	case err == nil:
		h.open, h.swapped = true, time.Now()
	case errors.Is(err, ErrLapsed):
		h.open = false
	}
	return err
}

// proofFrom returns the moment since which leadership has to be proven. What is opened or
// taken needs a proof that begins now. What is held may rest on heartbeats of raft that a
// majority has acknowledged already: those that were sent after the elements were written
// that are swapped, and short enough ago for the address.
func (w *watch) proofFrom(door, address bool) time.Time {
	now := time.Now()
	visible := w.shown.held && (w.g.o.AddressLease == nil || w.shown.open) // as far as we know
	if door && !w.door.open || address && !visible {
		return now
	}
	var t0 time.Time
	if door {
		t0 = w.door.swapped
	}
	if address {
		t0 = slices.MaxFunc([]time.Time{t0, w.shown.swapped, now.Add(-recentProof)}, time.Time.Compare)
	}
	return t0
}
