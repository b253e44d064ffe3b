package firewall

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// shown is the lease of the rig's address. It notes "arm address", "show" and "hide".
type shown struct {
	r     *rig
	none  bool // the kernel cannot gate the address
	arm   time.Time
	until time.Time
	// What another program did; Shut builds the tables again.
	gone   bool // it removed them
	opened bool // its rule lets everything out
}

// gated returns what lets the rig's address out; nil if nothing does.
func (r *rig) gated() Lease {
	if r.shown.r = r; r.shown.none {
		return nil
	}
	return &r.shown
}

func (s *shown) Arm(_ context.Context, d time.Duration) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.gone {
		return ErrForeign
	}
	s.r.noteLocked("arm address")
	s.arm = time.Now().Add(d)
	return nil
}

func (s *shown) Open(_ context.Context, d time.Duration) error { return s.swap(&s.arm, d) }

func (s *shown) Hold(_ context.Context, d time.Duration) error { return s.swap(&s.until, d) }

func (s *shown) swap(from *time.Time, d time.Duration) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.gone {
		return ErrForeign
	}
	if !time.Now().Before(*from) {
		return ErrLapsed
	}
	if s.opened && from == &s.arm {
		s.r.t.Error("tables-read-back: the address is shown by tables with another program's rule")
	}
	*from = time.Time{}
	s.until = time.Now().Add(d)
	s.r.noteLocked("show")
	return nil
}

func (s *shown) Shut(context.Context) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.noteLocked("hide")
	s.arm, s.until, s.gone, s.opened = time.Time{}, time.Time{}, false, false
	return nil
}

// change does something to the lease, as its kernel or another program may.
func (s *shown) change(do func(s *shown)) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	do(s)
}

// visibleFor returns for how long the address is let out from now on.
func (s *shown) visibleFor() time.Duration {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return time.Until(s.until)
}

// shows reports that what is shown was armed before its proof began (shown-by-proof), and
// returns how often it was shown with a proof of its own.
func (r *rig) shows() (taken int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	armed, proven := time.Duration(-1), time.Duration(-1)
	for _, e := range r.events {
		switch e.what {
		case "arm address":
			armed = e.at
		case "t0":
			proven = e.at
		case "show":
			if armed >= 0 {
				if taken++; proven < armed {
					r.t.Errorf("shown-by-proof: armed at %v, shown at %v on a proof since %v", armed, e.at, proven)
				}
			}
			armed = -1
		}
	}
	return taken
}

// TestAddressIsShownByALease wants an address at its neighbours while its lease is in
// force alone: for half of what others wait for at the most, and no longer than the
// leadership.
func TestAddressIsShownByALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(10*time.Second, func(*Guard) {
			for range 100 {
				time.Sleep(90 * time.Millisecond)
				synctest.Wait()
				if left := r.shown.visibleFor(); left <= 0 || left > leaseLength {
					t.Errorf("shown-by-lease: the address is let out for %v more", left)
				}
			}
		})
		if taken := r.shows(); taken != 1 {
			t.Errorf("it was shown with a proof of its own %d times", taken)
		}
		if n := r.count("show"); n < 20 || n > 60 {
			t.Errorf("shown-by-lease: its lease was written %d times in 19 s", n)
		}
		if left := r.shown.visibleFor(); left > 0 {
			t.Errorf("hidden-at-the-end: it is let out for %v more", left)
		}
		// Its neighbours lose it first: the kernel may take its time with the rest.
		last := r.events[len(r.events)-3:]
		hidden := slices.IndexFunc(last, func(e event) bool { return e.what == "hide" })
		removed := slices.IndexFunc(last, func(e event) bool { return e.what == "remove" })
		if hidden < 0 || removed < hidden {
			t.Errorf("hidden-at-the-end: the last things it did were %v", last)
		}
	})
}

// TestAddressThatLapsed is shown again with a proof that begins later, as a door is opened.
func TestAddressThatLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(time.Second, func(g *Guard) {
			for range 20 {
				time.Sleep(1777 * time.Millisecond) // longer than a renewal and a turn
				r.shown.change(func(s *shown) { s.until = time.Time{} })
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if s := g.Status(); !s.Open || !s.Held || r.shown.visibleFor() <= 0 {
				t.Errorf("open %v, held %v, shown for %v", s.Open, s.Held, r.shown.visibleFor())
			}
		})
		if taken := r.shows(); taken != 21 {
			t.Errorf("it was shown with a proof of its own %d times, want 21", taken)
		}
		if n := r.count("open"); n != 1 {
			t.Errorf("the door was opened %d times", n)
		}
	})
}

// TestAddressTablesThatWereRemoved are built again, and the door stays open meanwhile. They
// are read back before the address is taken.
func TestAddressTablesThatWereRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.shown.opened = true
		r.guard(time.Second, func(g *Guard) {
			time.Sleep(3 * time.Second)
			r.shown.change(func(s *shown) { s.gone = true })
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s := g.Status(); !s.Open || !s.Held || r.shown.visibleFor() <= 0 {
				t.Errorf("tables-built-again: open %v, held %v (%s), shown for %v", s.Open, s.Held, s.AddressWhy,
					r.shown.visibleFor())
			}
		})
		if taken := r.shows(); taken != 2 {
			t.Errorf("it was shown with a proof of its own %d times, want 2", taken)
		}
		if n := r.count("open"); n != 1 {
			t.Errorf("the door was opened %d times", n)
		}
	})
}

// TestAddressWithoutAGate is taken all the same; its guard has others wait for longer.
func TestAddressWithoutAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.shown.none = true
		r.lead()
		r.guard(5*time.Second, func(*Guard) {})
		if n := r.count("put"); n < 10 {
			t.Errorf("it was put %d times", n)
		}
	})
	for _, l := range []time.Duration{300 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond} {
		gated, bare := GuardOptions{Length: l}, GuardOptions{Length: l, AddressSlack: LateAddress}
		if d := bare.addressWait() - gated.addressWait(); d < LateAddress {
			t.Errorf("late-address: lease %v: others wait for %v longer", l, d)
		}
		if d := gated.addressWait() - 2*gated.shownFor(); d < margin {
			t.Errorf("shown-by-lease: lease %v: others wait for %v longer than what is shown may last", l, d)
		}
	}
}
