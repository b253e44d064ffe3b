package iptables

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

func TestMarkLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		m := mark{at: at, length: time.Second, ends: at.Add(time.Second)}
		time.Sleep(999 * time.Millisecond)
		if err := m.lapsed(time.Now()); err != nil {
			t.Errorf("in time: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := m.lapsed(time.Now()); !errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("at its end: %v", err)
		}
		if err := (mark{}).lapsed(time.Now()); !errors.Is(err, firewall.ErrLapsed) {
			t.Errorf("nothing to swap: %v", err)
		}
	})
}

// TestClockSet gives the mark another wall clock than the monotonic one has.
func TestClockSet(t *testing.T) {
	for _, c := range []struct {
		elapsed, wall time.Duration
		set           bool
	}{
		{300 * time.Millisecond, 300 * time.Millisecond, false},
		{300 * time.Millisecond, 301 * time.Millisecond, false},
		{300 * time.Millisecond, 2 * time.Hour, true},
		{300 * time.Millisecond, -5 * time.Hour, true},
		{300 * time.Millisecond, 0, true},
	} {
		if err := clockSet(c.elapsed, c.wall); errors.Is(err, firewall.ErrLapsed) != c.set {
			t.Errorf("%v by the one clock, %v by the other: %v", c.elapsed, c.wall, err)
		}
	}
}

// TestEnd holds the end of the lease against the bound: twice its length, by
// whole seconds, and never so early that nothing would be open.
func TestEnd(t *testing.T) {
	base := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for offset := range 1000 {
		at := base.Add(time.Duration(offset) * time.Millisecond)
		for _, length := range []time.Duration{time.Second, 1500 * time.Millisecond} {
			end := mark{at: at, length: length}.end(length)
			if end.After(at.Add(2*length)) || end.Before(at.Add(2*length-time.Second)) || end.Nanosecond() != 0 {
				t.Fatalf("from %v for %v: %v", at, length, end)
			}
		}
	}
}

func TestLeaseScripts(t *testing.T) {
	f := family{recent: "trivet_pxe6", mask: "::"}
	want := `*mangle
:TRIVET-LEASE - [0:0]
-C INPUT -i br-pxe -p udp -m multiport --dports 67,547,4011 -j TRIVET-LEASE
-A TRIVET-LEASE -m recent --rcheck --seconds 1 --name trivet_pxe6 --mask :: --rsource -m time --datestop 2026-11-21T09:59:59 -j RETURN
-A TRIVET-LEASE -j DROP
COMMIT
`
	if got := f.opened(site1, time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)); got != want {
		t.Errorf("open:\n%s", got)
	}
	if got := f.closed(); strings.Contains(got, "RETURN") || strings.Contains(got, "ACCEPT") {
		t.Errorf("closed:\n%s", got)
	}
}

func TestTooShort(t *testing.T) {
	r := &RecentLease{}
	if err := r.Arm(t.Context(), 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), "firewall.lease: 300ms is too short") {
		t.Error(err)
	}
	if err := r.Open(t.Context(), time.Second); !errors.Is(err, firewall.ErrLapsed) {
		t.Errorf("opened without being armed: %v", err)
	}
}
