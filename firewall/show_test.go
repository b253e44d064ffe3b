package firewall

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// address notes when it is put.
type address struct{ r *rig }

func (a address) Put(context.Context, time.Duration) error {
	a.r.note("put")
	return a.r.called("put")
}

func (a address) Remove(context.Context) error {
	a.r.note("remove")
	a.r.shown.change(func(s *shown) { s.arm, s.until = time.Time{}, time.Time{} })
	return a.r.called("remove")
}

func (a address) Announce(context.Context) error { a.r.note("announce"); return nil }

// Conflict hears another host for as long as the rig has one.
func (a address) Conflict(context.Context) (mac string, err error) {
	time.Sleep(a.r.silence) // in a bubble
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	return a.r.owner, nil
}

// Contested hears a claim at once, or listens in vain for the rig's ten seconds.
func (a address) Contested(ctx context.Context) (mac string, err error) {
	select {
	case mac := <-a.r.rival:
		return mac, nil
	case <-time.After(10 * time.Second): // in a bubble
		return "", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// shown is the lease of the rig's address. It notes "arm address" and "show".
type shown struct {
	r     *rig
	none  bool // the kernel cannot gate the address
	arm   time.Time
	until time.Time
	gone  bool // another program removed the tables; Arm builds them
}

// gated returns what lets the rig's address out; nil if nothing does.
func (r *rig) gated() Swap {
	if r.shown.r = r; r.shown.none {
		return nil
	}
	return &r.shown
}

func (s *shown) Arm(_ context.Context, d time.Duration) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.noteLocked("arm address")
	s.arm, s.until, s.gone = time.Now().Add(d), time.Time{}, false
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
	*from = time.Time{}
	s.until = time.Now().Add(d)
	s.r.noteLocked("show")
	return nil
}

// change does something to the lease, as its kernel or another program may.
func (s *shown) change(do func(s *shown)) {
	if s.r != nil { // something lets the address out
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		do(s)
	}
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
		if n := r.count("show"); n < 20 {
			t.Errorf("shown-by-lease: its lease was written %d times in 19 s", n)
		}
		if left := r.shown.visibleFor(); left > 0 {
			t.Errorf("hidden-at-the-end: it is let out for %v more", left)
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

// TestAddressTablesThatWereRemoved are built again, and the door stays open meanwhile.
func TestAddressTablesThatWereRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
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
		gated, bare := GuardOptions{Length: l, AddressLease: new(shown), Freeze: l}, GuardOptions{Length: l, Freeze: l}
		if d := bare.addressWait() - (freshAddress + addressLife + lateAddress + l); d < margin {
			t.Errorf("late-address: lease %v: others wait for %v longer than the address may stay", l, d)
		}
		if d := gated.addressWait() - 3*l; d < margin {
			t.Errorf("shown-by-lease: lease %v: others wait for %v longer than what is shown may last", l, d)
		}
	}
}

// TestAddressThatCannotBePut leaves the door as it is: to a host without IPv6 machines boot.
func TestAddressThatCannotBePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.silence = 100 * time.Millisecond
		r.kernel = func(what string) error {
			if what == "put" {
				return errors.New("permission denied: IPv6 is off on this interface")
			}
			return nil
		}
		r.lead()
		r.guard(10*time.Second, func(*Guard) {})
		if opened := r.count("open"); opened != 1 || r.count("put") < 10 {
			t.Errorf("door-alone: in ten seconds the door was opened %d times, the address put %d times", opened, r.count("put"))
		}
	})
}

// An address, or PXE service, of which it is not known that the log has it is not opened: the next leader
// would not wait for it.
func TestNothingOpensThatIsNotRecorded(t *testing.T) {
	for _, c := range []struct{ kind, opens string }{{"pass open", "open"}, {"address taken", "put"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.lead()
			r.propose = func(fsm.Command) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.events[len(r.events)-1].what == "propose "+c.kind {
					return errors.New("the outcome is unknown")
				}
				return nil
			}
			r.guard(6*time.Second, func(*Guard) {})
			if at, tried := r.times(c.opens), r.count("propose "+c.kind); len(at) > 0 || tried < 2 {
				t.Errorf("opened-unrecorded: %s at %v, after %d records that failed", c.opens, at, tried)
			}
		})
	}
}
