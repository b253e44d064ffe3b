//go:build e2e

package iptables

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/internal/testwait"
)

// length of the lease in these tests: a busy machine does not keep them waiting for
// as long.
const length = 3 * time.Second

func leaseOn(t testing.TB, b Backend) *RecentLease {
	t.Helper()
	r, err := NewRecentLease(t.Context(), layout, On(b))
	must(t, err)
	must(t, r.Shut(t.Context()))
	return r
}

// stampLife is for how long the kernel itself counts from the newest stamp.
const stampLife = leaseSeconds * time.Second

// opens opens the lease until a machine passes on every gated port: a busy machine
// may keep the test waiting for as long as a stamp lives. It returns from before the
// lease was armed.
func (s *site) opens(r *RecentLease, mac string) (t0 time.Time) {
	s.t.Helper()
	testwait.Within(s.t, waitLimit, "the lease lets "+mac+" pass", func() error {
		t0 = time.Now()
		if err := errors.Join(r.Arm(s.t.Context(), length), r.Open(s.t.Context(), length)); err != nil {
			return err
		}
		for _, port := range firewall.Gated() {
			if !s.passes(mac, port) {
				return fmt.Errorf("it does not pass on port %d", port)
			}
		}
		return nil
	})
	return t0
}

// holds renews the lease, or opens it again where a busy machine kept the test
// waiting since t0 for as long as a stamp lives. It returns from before the renewal.
func (s *site) holds(r *RecentLease, t0 time.Time) time.Time {
	s.t.Helper()
	now := time.Now()
	err := r.Hold(s.t.Context(), length)
	if errors.Is(err, firewall.ErrLapsed) && time.Since(t0) > stampLife/2 {
		s.t.Logf("kept waiting: %v", err)
		return s.opens(r, unknown)
	}
	must(s.t, err)
	return now
}

// closes waits until a machine passes no more, and says when it last did.
func (s *site) closes(port uint16) (last time.Time) {
	s.t.Helper()
	testwait.UntilWithin(s.t, waitLimit, fmt.Sprintf("port %d closes", port), func() bool {
		now := time.Now()
		if !s.passes(unknown, port) {
			return true
		}
		last = now
		return false
	})
	return last
}

func TestRecentLease(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		s := newSite(t).warm()
		r, ctx := leaseOn(t, b), t.Context()
		s.expect("shut", unknown, false)
		must(t, r.Arm(ctx, length))
		s.expect("armed", unknown, false)
		t0 := s.opens(r, unknown)
		for range 5 { // beyond the life of one
			t0 = s.holds(r, t0)
			testwait.Every(t, 5*time.Millisecond, stampLife/3, func() {
				if !s.passes(unknown, 67) && time.Since(t0) < stampLife {
					t.Fatal("it closed while it was held")
				}
			})
		}
		for _, port := range firewall.Gated() {
			if last := s.closes(port); last.Sub(t0) > 2*length {
				t.Errorf("port %d was open until %v after the proof; at most %v", port, last.Sub(t0), 2*length)
			}
		}
		if err := r.Hold(ctx, length); !errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("held after it had ended: %v", err)
		}
		s.expect("a late hold", unknown, false)
	})
}

func TestRecentLeaseShut(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		s := newSite(t).warm()
		r, ctx := leaseOn(t, b), t.Context()
		s.opens(r, unknown)
		must(t, r.Shut(ctx))
		s.expect("shut", unknown, false)
		must(t, r.Shut(ctx))
		if err := r.Hold(ctx, length); !errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("held after it was shut: %v", err)
		}
		if err := r.Open(ctx, length); !errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("opened without being armed: %v", err)
		}
		s.expect("shut", unknown, false)
	})
}

// TestRecentLeaseLateStamp is the process that slept between its last look at
// the clock and the write: the end by the wall clock holds.
func TestRecentLeaseLateStamp(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		s := newSite(t).warm()
		r, ctx := leaseOn(t, b), t.Context()
		must(t, r.Arm(ctx, length))
		must(t, r.Open(ctx, length))
		s.closes(67)
		testwait.Elapse(t, time.Until(r.held.at.Add(2*length)), "the stamp comes too late")
		must(t, r.stamp())
		s.expect("a stamp that came too late", unknown, false)
	})
}

// TestRecentLeaseFlushed is the leader whose table somebody flushed.
func TestRecentLeaseFlushed(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		s := newSite(t).warm()
		r, ctx := leaseOn(t, b), t.Context()
		must(t, r.Arm(ctx, length))
		must(t, r.Open(ctx, length))
		for _, f := range r.tools.families {
			_, err := run(ctx, "", f.command, "-t", leaseTable, "-F", input)
			must(t, err)
		}
		err := r.Hold(ctx, length)
		if errors.Is(err, firewall.ErrLapsed) { // a busy machine kept the test waiting
			err = errors.Join(r.Arm(ctx, length), r.Open(ctx, length))
		}
		if !errors.Is(err, firewall.ErrForeign) {
			t.Errorf("held although nothing leads to the lease: %v", err)
		}
		must(t, r.Shut(ctx))
		s.expect("shut again", unknown, false)
	})
}

// TestRecentLeaseBesideLists has both drivers in force, as on a host.
func TestRecentLeaseBesideLists(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		s, f := newSite(t).warm(), filterOn(t, b)
		r, ctx := leaseOn(t, b), t.Context()
		must(t, f.Replace(ctx, firewall.Ruleset{Allow: []string{allowed}, Deny: []string{denied}, Pass: true}))
		s.expect("no lease", allowed, false)
		s.opens(r, allowed)
		s.expect("lease", denied, false)
		must(t, f.Replace(ctx, firewall.Ruleset{}))
		must(t, errors.Join(r.Arm(ctx, length), r.Open(ctx, length)))
		s.expect("sealed", allowed, false)
		must(t, f.Remove(ctx))
		s.expect("removed", denied, true)
	})
}
