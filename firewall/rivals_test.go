package firewall

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHeldAddressIsDefended has another host claim the floating IP while this one
// has it: it is announced again at once, and status names the other host until
// one look finds no claim.
func TestHeldAddressIsDefended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rival = make(chan string)
		r.lead()
		r.guard(time.Second, func(g *Guard) {
			time.Sleep(15 * time.Second) // in a bubble: the announcements of a new holder are over
			before := r.count("announce")
			r.rival <- mac(9)                  // in a bubble
			time.Sleep(500 * time.Millisecond) // in a bubble
			if got := r.count("announce") - before; got != 1 {
				t.Errorf("defended: announced %d times in 0.5 s after a claim, want once", got)
			}
			if s := g.Status(); s.ConflictMAC != mac(9) || !s.Held {
				t.Errorf("defended: after a claim status has %+v", s)
			}
			time.Sleep(25 * time.Second) // in a bubble: a pause, and a look in vain
			if s := g.Status(); s.ConflictMAC != "" || !s.Held {
				t.Errorf("defended: long after the claim status has %+v", s)
			}
		})
		if lapses := r.count("open"); lapses != 1 {
			t.Errorf("the door was opened %d times, want once: to listen must not keep it waiting", lapses)
		}
	})
}

// An address that another host answers for is not taken, and not recorded as taken,
// until that host is silent.
func TestContestedAddressIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.owner = mac(9)
		r.lead()
		r.guard(5*time.Second, func(g *Guard) {
			time.Sleep(10 * time.Second) // in a bubble
			if n := r.count("put") + r.count("propose address taken"); n != 0 {
				t.Errorf("contested: taken or recorded %d times while another host has it", n)
			}
			if s := g.Status(); s.Held || s.AddressWhy != "it is in use by "+mac(9) || s.ConflictMAC != mac(9) {
				t.Errorf("contested: status has %+v", s)
			}
			r.mu.Lock()
			r.owner = ""
			r.mu.Unlock()
			time.Sleep(time.Second) // in a bubble
			if s := g.Status(); !s.Held || s.ConflictMAC != "" {
				t.Errorf("contested: after the other host fell silent status has %+v", s)
			}
		})
	})
}

// TestDefenceDoesNotFlood has the other host claim the address all the time.
func TestDefenceDoesNotFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rival = make(chan string)
		claims := 0
		ended := make(chan struct{})
		r.lead()
		r.guard(time.Second, func(*Guard) {
			time.Sleep(15 * time.Second) // in a bubble
			go func() {
				defer close(ended)
				for timeout := time.After(time.Minute); ; claims++ { // in a bubble
					select {
					case r.rival <- mac(9):
					case <-timeout:
						return
					}
				}
			}()
			before := r.count("announce")
			<-ended // in a bubble
			if got := r.count("announce") - before; claims < 6 || claims > 8 || got < claims || got > 2*claims {
				t.Errorf("defended: heard %d claims and announced %d times in a minute, want one in 10 s and the usual ones",
					claims, got)
			}
		})
	})
}

// TestListeningEndsWithTheAddress wants no goroutine left of a leadership that
// ended, and no conflict in status.
func TestListeningEndsWithTheAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which waits for all goroutines of the bubble
		r := newRig(t)
		r.rival = make(chan string)
		r.lead()
		var g *Guard
		r.guard(100*time.Millisecond, func(made *Guard) {
			g = made
			time.Sleep(5 * time.Second) // in a bubble
			r.rival <- mac(9)           // in a bubble
		})
		if s := g.Status(); s.ConflictMAC != "" || s.Held {
			t.Errorf("after the leadership status has %+v", s)
		}
	})
}
