package firewall

import (
	"testing"
	"testing/synctest"
	"time"
)

// A leader whose rules are there a little later than its leadership opens PXE then, also
// where the neighbours are being asked for the floating IP, and takes that when they have
// been silent.
func TestPXEDoesNotWaitForTheNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rules.slow, r.silence = 40*time.Millisecond, 100*time.Millisecond
		r.lead()
		r.guard(time.Second, func(*Guard) {})
		if at := r.times("open"); len(at) != 1 || at[0] > r.rules.slow+again {
			t.Errorf("pxe-waits-for-neighbours: the rules were there after %v, and PXE opened after %v", r.rules.slow, at)
		}
		if at := r.times("put"); len(at) == 0 || at[0] < r.silence || at[0] > r.silence+again {
			t.Errorf("address-before-the-answer: the neighbours were given %v, and the address was put after %v", r.silence, at)
		}
	})
}

// An address that another host has is not taken, while it is asked for again and again,
// and is taken when that host has gone.
func TestAddressInUseIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.silence, r.owner = 100*time.Millisecond, "52:54:00:00:00:09"
		r.lead()
		gone := 2 * time.Second
		r.guard(time.Second, func(g *Guard) {
			for range 40 { // until shortly before it has gone: what is said of it does not change
				time.Sleep(gone / 41) // in a bubble
				if why := g.Status().AddressWhy; time.Since(r.began) > r.silence+again && why != "it is in use by "+r.owner {
					t.Errorf("address-in-use: after %v: %q", time.Since(r.began), why)
				}
			}
			r.mu.Lock()
			r.owner = ""
			r.mu.Unlock()
		})
		if at := r.times("put"); len(at) == 0 || at[0] < 40*gone/41 || at[0] > gone+2*r.silence {
			t.Errorf("address-in-use: put after %v", at)
		}
	})
}

// An answer that was not used for a while says nothing about now.
func TestOldAnswerOfTheNeighboursCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var i inquiry
		i.begin(t.Context(), address{r})
		synctest.Wait()
		time.Sleep(foundFor) // in a bubble
		if f, ok := i.takeAnswer(); ok {
			t.Errorf("old-answer: %v old, and counts", time.Since(f.at))
		}
		i.begin(t.Context(), address{r})
		synctest.Wait()
		if _, ok := i.takeAnswer(); !ok {
			t.Error("old-answer: one that has just come does not count")
		}
		if _, ok := i.takeAnswer(); ok {
			t.Error("answer-twice: it counts twice")
		}
	})
}

// The neighbours are asked in the last part of the wait for another leader's host, so that
// their silence costs no time of its own; an answer of that host, which has the address a
// little longer, is no conflict.
func TestNeighboursAreAskedBeforeTheWaitIsOver(t *testing.T) {
	for _, c := range []struct {
		what            string
		answers, atMost time.Duration // of the earlier holder, and of the address here
	}{
		{"the earlier holder is gone", 0, fullWait + 10*time.Millisecond},
		{"it answers at first", fullWait - 120*time.Millisecond, fullWait + 80*time.Millisecond},
		{"it answers to the end", fullWait - time.Millisecond, fullWait + 200*time.Millisecond},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.silence = 100 * time.Millisecond
				if c.answers > 0 {
					r.owner = "52:54:00:00:00:09"
				}
				r.another(0)
				r.lead()
				r.guard(2*fullWait, func(g *Guard) {
					time.Sleep(c.answers) // in a bubble
					r.mu.Lock()
					r.owner = ""
					r.mu.Unlock()
					time.Sleep(fullWait) // in a bubble
					if mac := g.Status().ConflictMAC; mac != "" {
						t.Errorf("asked-ahead: the earlier holder is told as a conflict: %s", mac)
					}
				})
				if at := r.times("put"); len(at) == 0 || at[0] < fullWait || at[0] > c.atMost {
					t.Errorf("asked-ahead: put after %v, want %v to %v", at[:min(len(at), 1)], fullWait, c.atMost)
				}
			})
		})
	}
}
