package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatIsAskedForOftenIsReadAhead: nobody waits for it, nobody gets what is older
// than fresh, and it is read once at a time.
func TestWhatIsAskedForOftenIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 300 * time.Millisecond
		s := newReadCache[time.Time](time.Now)
		var reads atomic.Int32
		var fails atomic.Bool
		get := func() (age, waited time.Duration, err error) {
			began := time.Now()
			at, err := s.get(t.Context(), "name", func(error) bool { return false }, func(context.Context) (time.Time, error) {
				reads.Add(1)
				at := time.Now()
				time.Sleep(slow) // in a bubble
				if fails.Load() {
					return time.Time{}, errors.New("no answer")
				}
				return at, nil
			})
			return time.Since(at), time.Since(began), err
		}
		if _, waited, err := get(); err != nil || waited != slow {
			t.Fatalf("the first waits %v, %v", waited, err)
		}
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			if age, waited, err := get(); err != nil || waited != 0 || age >= freshTTL {
				t.Fatalf("read-ahead: waited %v for what is %v old, %v", waited, age, err)
			}
		}
		if n := reads.Load(); n < 10 || n > 21 {
			t.Errorf("read %d times in ten seconds", n)
		}
		fails.Store(true) // what is known serves, and those who ask find the fault
		time.Sleep(freshTTL)
		for range 20 {
			if age, _, err := get(); err != nil || age < freshTTL {
				t.Fatalf("while nobody answers: %v old, %v", age, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.wait()
	})
}
