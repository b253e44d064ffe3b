package firewall

import (
	"context"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/doors"
)

// While another host answers for the address, the guard asks again at each turn, and
// warns once the conflict has lasted for conflictReport.
const conflictReport = 3 * time.Second

// Address is the floating IP. One goroutine calls it, but for Contested.
type Address interface {
	// Put adds the address for valid, or extends its life.
	Put(ctx context.Context, valid time.Duration) error
	// Remove takes it away, first from the neighbours, and reads back that it is gone.
	Remove(ctx context.Context) error
	Neighbours
}

// Neighbours are the hosts that can reach the floating IP.
type Neighbours interface {
	// Announce tells them who has it now.
	Announce(ctx context.Context) error
	// Conflict returns the MAC of another host that answers for the address, "" if
	// there is none.
	Conflict(ctx context.Context) (mac string, err error)
	// Contested asks and listens for some seconds, while this host has the
	// address, and returns the MAC of another host that claims it, "" if none
	// did. Another goroutine may call it at the same time as the rest.
	Contested(ctx context.Context) (mac string, err error)
}

// addressReady says why the address must not be taken yet, "" if it may be.
func (w *watch) addressReady(ctx context.Context) (why string, err error) {
	if w.g.o.Address == nil {
		return "there is no floating IP", nil
	}
	v, _ := w.g.o.Log.Changed()
	if !covers(v, w.a.Token()) {
		return "this peer's state is older than its leadership", nil
	}
	if w.taken && w.shown.held {
		return "", nil
	}
	if why := w.unheardFormerMembers(v); why != "" && !w.taken {
		return why, nil
	}
	wait := w.g.o.addressWait()
	left, proven := w.mustWait(v, v.AddressDoor(), wait)
	if !w.taken && left > 0 {
		if w.wakeIn(left); left <= askAhead {
			w.inquiry.beginAhead(ctx, w.g.o.Address)
		} else {
			w.wakeIn(left - askAhead)
		}
		return fmt.Sprintf("another host may hold it for %v more", left.Round(time.Millisecond)), nil
	}
	if why := w.addressConflict(ctx); why != "" {
		return why, nil
	}
	if !w.taken {
		w.taken, err = w.recordDoor(ctx, doors.AddressTaken{Address: w.g.o.AddressText, Wait: wait, Proven: proven})
	}
	return "", err
}

// wakeIn makes the next turn come when what it waits for is due, if that is
// soon.
func (w *watch) wakeIn(left time.Duration) { w.left = min(w.left, left) }

// addressConflict says which other host answers for the address, or that the answer is
// awaited, "" if none does. That host is no peer: every peer has removed the address
// by now.
func (w *watch) addressConflict(ctx context.Context) string {
	found, ok := w.inquiry.takeAnswer()
	if !ok {
		w.inquiry.begin(ctx, w.g.o.Address)
		return w.inquiry.why
	}
	if found.err != nil {
		return fmt.Sprintf("cannot tell whether another host has it: %v", found.err)
	}
	mac := found.mac
	if mac == "" {
		w.g.updateStatus(func(s *GuardStatus) { s.ConflictMAC = "" })
		return ""
	}
	if known := w.g.Status().ConflictMAC; time.Since(w.inquiry.since) > conflictReport && known != mac {
		w.g.o.Logger.Warn("floating IP conflict: another host answers ARP, not taking it", "address", w.g.o.AddressText,
			"mac", mac)
		w.g.updateStatus(func(s *GuardStatus) { s.ConflictMAC = mac })
	}
	return w.inquiry.why
}

// dropAddress takes the address away.
func (w *watch) dropAddress(why string) (dropped bool) {
	if w.g.o.Address == nil {
		return true
	}
	w.rivals.stopListening()
	ctx, cancel := context.WithTimeout(context.Background(), shutLimit)
	defer cancel()
	err := w.g.o.Address.Remove(ctx)
	w.shown.open = false
	if err != nil {
		w.g.failing.Error("remove floating IP failed; the kernel removes it when its lifetime ends", "address",
			w.g.o.AddressText, "lifetime", addressLife, "err", err)
	}
	if w.shown.held {
		w.g.o.Logger.Info("floating IP released", "address", w.g.o.AddressText, "reason", why)
	}
	w.shown.held = false
	w.g.updateStatus(func(s *GuardStatus) { s.Held, s.AddressWhy = false, why })
	return err == nil
}
