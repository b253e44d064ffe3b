package leader

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A peer that must not lead begins no duty, whether or not somebody takes what
// raft has given it, and however long nobody else leads.
func TestBarredPeerBeginsNoDuty(t *testing.T) {
	for name, handed := range map[string]bool{"handed on": true, "no peer takes it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{log: newFakeLog(), barred: func() error { return ErrMaintenance }}
				s.yield = func() error {
					if !handed {
						return errors.New("nobody is there")
					}
					s.log.notice(false)
					return nil
				}
				stop := s.run(t, s.duty("a", 0, nil))
				for range 4 {
					s.log.notice(true)
					time.Sleep(2 * tolerance) // in a bubble
				}
				stop()
				got := s.seen()
				if slices.Contains(got, "start a") || slices.Contains(got, "exit 75") ||
					slices.Contains(got, "abdicate") == handed {
					t.Errorf("never-leads: %v", got)
				}
			})
		})
	}
}

// A process that ends while it looks for a peer to hand on to stops looking.
func TestHandingOnEndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: newFakeLog(), barred: func() error { return errObserver }}
		tries := 0
		s.yield = func() error {
			if tries++; tries == 100 {
				t.Error("handing-on-ends: it was tried 100 times without a pause")
				s.log.notice(false)
			}
			return errors.New("nobody is there")
		}
		stop := s.run(t, s.duty("a", 0, nil))
		s.log.notice(true)
		synctest.Wait()
		stop()
	})
}

// Maintenance that begins while the peer leads ends its duties.
func TestMaintenanceEndsALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var maintained atomic.Bool
		s := &stage{log: newFakeLog(), barred: func() error {
			if maintained.Load() {
				return ErrMaintenance
			}
			return nil
		}}
		s.yield = func() error {
			s.log.notice(false)
			return nil
		}
		stop := s.run(t, s.duty("a", 0, nil))
		s.log.notice(true)
		synctest.Wait()
		maintained.Store(true)
		time.Sleep(2 * fitnessCheck) // in a bubble
		synctest.Wait()
		if got, want := s.seen(), []string{"start a", "stop a", "step down"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		stop()
	})
}
