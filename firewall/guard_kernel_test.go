package firewall

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Stop says in the log that PXE is closed only if the kernel confirmed both the
// closed lease and the removed address: the next leader relies on that record
// and does not wait.
func TestFailedCloseIsNotRecorded(t *testing.T) {
	for _, failing := range []string{"shut", "remove"} {
		t.Run(failing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.kernel = func(what string) error {
					if what == failing {
						return errors.New("netlink: no buffer space")
					}
					return nil
				}
				r.lead()
				r.guard(time.Second, func(g *Guard) {
					time.Sleep(time.Second) // in a bubble
					g.Stop(context.Background())
				})
				if r.count("open") == 0 || r.count("put") == 0 {
					t.Fatalf("opened %d times, put the address %d times: the case is not reached", r.count("open"), r.count("put"))
				}
				if n, m := r.count("propose pass closed"), r.count("propose address released"); n+m > 0 {
					t.Errorf("unconfirmed-close: %s failed, and the log says %d times closed, %d times released", failing, n, m)
				}
			})
		})
	}
}

// The address is written on a fresh proof or not at all: the kernel cannot tell
// a late write from another.
func TestAddressNeedsAFreshProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.confirm = func(time.Time) error {
			time.Sleep(freshAddress + time.Millisecond) // in a bubble
			return nil
		}
		r.lead()
		r.guard(5*time.Second, func(*Guard) {})
		if n := r.count("put"); n > 0 {
			t.Errorf("fresh-proof: the address was put %d times on proofs older than %v", n, freshAddress)
		}
		if r.count("open") == 0 {
			t.Error("a slow proof keeps the door shut")
		}
	})
}

// A write of the address that returns too long after its proof is undone at
// once: another leader may hold the address by then.
func TestLateAddressIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.kernel = func(what string) error {
			if what == "put" {
				time.Sleep(freshAddress + time.Millisecond) // in a bubble
			}
			return nil
		}
		r.lead()
		r.guard(2*time.Second, func(g *Guard) {
			time.Sleep(time.Second) // in a bubble
			synctest.Wait()
			if status := g.Status(); status.Held {
				t.Errorf("late-address: the guard claims to hold the address: %+v", status)
			}
		})
		put, removed := r.times("put"), r.times("remove")
		if len(put) == 0 {
			t.Fatal("the address was never put: the case is not reached")
		}
		for _, at := range put {
			if late := at + freshAddress + time.Millisecond; !slices.Contains(removed, late) {
				t.Errorf("late-address: put at %v, back at %v, and removed at %v", at, late, removed)
			}
		}
		if n := r.count("announce"); n > 0 {
			t.Errorf("late-address: announced %d times", n)
		}
	})
}

// CloseAtStart ends what a crashed process left in the kernel, and does both
// steps although one of them fails.
func TestCloseAtStart(t *testing.T) {
	for _, failing := range []string{"", "shut", "remove"} {
		t.Run("failing "+failing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				failed := errors.New("netlink: no buffer space")
				r.kernel = func(what string) error {
					if what == failing {
						return failed
					}
					return nil
				}
				r.began, r.lease = time.Now(), time.Now().Add(leaseLength)
				g := NewGuard(GuardOptions{Lease: r, Address: address{r}, Logger: slog.New(slog.DiscardHandler)})
				if err := g.CloseAtStart(t.Context()); errors.Is(err, failed) != (failing != "") {
					t.Errorf("close-at-start: with failing %q: %v", failing, err)
				}
				if got, want := r.events, []event{{0, "remove"}, {0, "shut"}}; !slices.Equal(got, want) {
					t.Errorf("close-at-start: %v, want %v", got, want)
				}
			})
		})
	}
}
