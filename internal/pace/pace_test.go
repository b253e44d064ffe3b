package pace

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Every begins at once, After after a period; both keep the period however long a round
// takes, leave out what a slow round misses, and end with the context or the loop.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		began := time.Now()
		var rounds []time.Duration
		note := func(work time.Duration) {
			rounds = append(rounds, time.Since(began))
			time.Sleep(work)
		}
		for range Every(ctx, time.Second) {
			work := 300 * time.Millisecond
			if len(rounds) == 2 {
				work = 1700 * time.Millisecond
			}
			note(work)
		}
		if want := []time.Duration{0, 1, 2, 3700, 4, 5}; !same(rounds, want) || time.Since(began) != 5500*time.Millisecond {
			t.Errorf("every second: %v until %v, want %v", rounds, time.Since(began), want)
		}
		ctx, again := context.WithTimeout(t.Context(), time.Hour)
		defer again()
		began, rounds = time.Now(), nil
		for range After(ctx, time.Second) {
			if note(0); len(rounds) == 3 {
				break
			}
		}
		if want := []time.Duration{1, 2, 3}; !same(rounds, want) || time.Since(began) != 3*time.Second {
			t.Errorf("after a second: %v until %v, want %v", rounds, time.Since(began), want)
		}
	})
}

// Rounds of loops that go together begin at the same moments, wherever each loop began; a
// process that does nothing else wakes up for the shortest period alone.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		origin := time.Now()
		ctx = Together(ctx, origin)
		var mu sync.Mutex
		wakes := make(map[time.Duration]int) // by when
		var loops sync.WaitGroup
		loop := func(rounds func(yield func() bool)) {
			for range rounds {
				mu.Lock()
				wakes[time.Since(origin)]++
				mu.Unlock()
			}
		}
		for n, period := range []time.Duration{100, 200, 400, 500, 1000} {
			time.Sleep(17 * time.Millisecond)
			began := time.Since(origin)
			loops.Go(func() { loop(After(ctx, period*time.Millisecond)) })
			if n == 0 {
				loops.Go(func() { loop(Every(ctx, period*time.Millisecond)) })
				synctest.Wait()
				mu.Lock()
				if wakes[began] != 1 {
					t.Errorf("pace-together: the first round of a loop began %v, want one at once", wakes)
				}
				clear(wakes)
				mu.Unlock()
			}
		}
		loops.Wait()
		if len(wakes) > 100 || wakes[2*time.Second] != 6 {
			t.Errorf("pace-together: six loops woke at %d moments in ten seconds, %d of them after two seconds", len(wakes),
				wakes[2*time.Second])
		}
	})
}

// same compares with whole seconds, or milliseconds.
func same(got, want []time.Duration) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		unit := time.Second
		if w > 1000 {
			unit = time.Millisecond
		}
		if got[i] != w*unit {
			return false
		}
	}
	return true
}

// A pause ends with the context, and says so.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		if !Wait(ctx, time.Second) {
			t.Error("a pause was cut short")
		}
		if Wait(ctx, time.Second) || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("a pause lasted until %v, want the end of the context after 1.5s", time.Since(began))
		}
	})
}
