// Package pace spaces what is done again and again, and what is tried again after a failure,
// until a context ends.
package pace

import (
	"context"
	"time"
)

// Every is ranged over by work that is done at once and then once in each period, until
// ctx ends. Like a ticker it leaves out the rounds that a slow one has missed.
func Every(ctx context.Context, period time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for yield() && next(ctx, tick.C) {
		}
	}
}

// After is Every for work that is done for the first time after one period.
func After(ctx context.Context, period time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for next(ctx, tick.C) && yield() {
		}
	}
}

// Wait pauses for d, or until ctx ends, and reports whether ctx goes on. A pause that is not
// positive needs no timer: a select that finds one expired, in a bubble of synctest, has
// ended programs built with the race detector (Go 1.26).
func Wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	return next(ctx, time.After(d))
}

func next(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-ctx.Done():
		return false
	}
}
