package firewall

import (
	"testing"
	"testing/synctest"
	"time"
)

// A process that was stopped wakes up with a door that the kernel has shut; it
// must not tell that it is open (the gauges of all hosts sum to one at most).
func TestStatusClaimsNoMoreThanTheKernelGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(GuardOptions{Length: time.Second})
		if s := g.Status(); s.Open || s.Held || s.Why == "" {
			t.Errorf("at first: %+v", s)
		}
		opened := time.Now()
		g.updateStatus(func(s *GuardStatus) {
			s.Open, s.Why, s.LastHold = true, "", opened
			s.Held, s.LastPut = true, opened
		})
		time.Sleep(time.Second - time.Millisecond)
		if s := g.Status(); !s.Open || !s.Held || !s.Since.Equal(opened) {
			t.Errorf("while it lasts: %+v", s)
		}
		time.Sleep(time.Millisecond)
		s := g.Status()
		if s.Open || s.Held || s.Why == "" || s.AddressWhy == "" || !s.Since.Equal(opened.Add(time.Second)) {
			t.Errorf("after its end: %+v", s)
		}
	})
}
