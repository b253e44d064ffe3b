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

// Wait pauses for d, or until ctx ends, and reports whether ctx goes on.
func Wait(ctx context.Context, d time.Duration) bool { return next(ctx, time.After(d)) }

func next(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-ctx.Done():
		return false
	}
}
