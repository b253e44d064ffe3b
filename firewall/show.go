package firewall

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// shownAddress is what the guard knows of the address, and of the lease that lets it out.
type shownAddress struct {
	kernelElement
	held bool // the address is on this host
}

// armAddress puts the element that a later proof allows to show the address with. It
// reports whether the address may be written in this turn.
func (w *watch) armAddress(ctx context.Context) bool {
	if w.g.o.AddressLease == nil || w.shown.open {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, w.g.o.Length)
	defer cancel()
	err := w.g.o.AddressLease.Arm(limited, w.g.o.Length)
	if err != nil {
		w.unshown(fmt.Errorf("arm its lease: %w", err))
	}
	return err == nil
}

// unshown drops the address because it, or its lease, could not be written: the next turn
// takes it again. The door does not depend on it.
func (w *watch) unshown(err error) {
	w.g.failing.Warn("show floating IP failed, retrying", "address", w.g.o.AddressText, "err", err)
	w.dropAddress(err.Error())
}

// writeAddress writes the address while the proof is young, and looks at the clock again
// afterwards: the kernel has no compare-and-swap for addresses. Neighbours see it by its
// lease, which has one.
func (w *watch) writeAddress(ctx context.Context, t0 time.Time) error {
	if time.Since(t0) > freshAddress {
		return nil // the next proof will be younger
	}
	before := time.Now()
	limited, cancel := context.WithDeadline(ctx, t0.Add(freshAddress))
	defer cancel()
	if err := w.g.o.Address.Put(limited, addressLife); err != nil {
		w.unshown(fmt.Errorf("put it on the interface: %w", err))
		return nil
	}
	if late := time.Since(t0); late > freshAddress {
		w.dropAddress("written too late after its proof")
		return nil
	}
	if w.g.o.AddressLease != nil {
		err := w.shown.swap(limited, w.g.o.AddressLease, w.g.o.Length)
		if errors.Is(err, ErrLapsed) { // the next turn opens it again
			w.g.o.Logger.Info("lease of the floating IP lapsed before its renewal; it is shown again with a new proof",
				"address", w.g.o.AddressText)
			return nil
		}
		if err != nil {
			w.unshown(fmt.Errorf("swap its lease: %w", err))
			return nil
		}
	}
	now := time.Now()
	if !w.shown.held {
		w.shown.held = true
		w.announce = announcements{taken: now}
		w.rivals.listen(w.g.o.Address, w.g.failing)
		w.g.o.Logger.Info("floating IP acquired", "address", w.g.o.AddressText, "token", w.a.Token())
	}
	w.g.updateStatus(func(s *GuardStatus) { s.Held, s.AddressWhy, s.LastPut = true, "", before })
	if w.announce.due(now) {
		if err := w.g.o.Address.Announce(ctx); err != nil {
			w.g.failing.Warn("announce floating IP failed, retrying", "address", w.g.o.AddressText, "err", err)
		}
	}
	return nil
}
