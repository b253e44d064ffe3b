package pace

import (
	"context"
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
