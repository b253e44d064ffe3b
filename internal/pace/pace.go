// Package pace spaces what is done again and again, and what is tried again after a failure,
// until a context ends.
package pace

import (
	"context"
	"time"
)

// originKey finds in a context what Together gave it.
type originKey struct{}

// Together has the rounds of all loops that get a context below this one begin whole periods
// after an origin, so that those whose periods are multiples of each other begin at once. To
// wake up costs a process that does nothing more than most of its rounds.
func Together(ctx context.Context, origin time.Time) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

// Every is ranged over by work that is done at once and then once in each period, until
// ctx ends. Of the rounds that a slow one has missed it makes up for one. The first period
// is shorter where Together says when rounds begin.
func Every(ctx context.Context, period time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		for r := newRounds(ctx, period); yield() && r.await(ctx); {
		}
	}
}

// After is Every for work that is not done at once, but for the first time after one period.
func After(ctx context.Context, period time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		for r := newRounds(ctx, period); r.await(ctx) && yield(); {
		}
	}
}

// rounds are the rounds of one loop.
type rounds struct {
	period time.Duration
	origin time.Time // each begins a whole number of periods later
	begun  time.Time // when the newest one did
}

func newRounds(ctx context.Context, period time.Duration) *rounds {
	now := time.Now()
	origin, ok := ctx.Value(originKey{}).(time.Time)
	if !ok {
		origin = now
	}
	return &rounds{period: period, origin: origin, begun: now}
}

// await returns when the next round begins, and reports whether ctx goes on.
func (r *rounds) await(ctx context.Context) bool {
	due := r.begun.Add(r.period - r.begun.Sub(r.origin)%r.period)
	goes := Wait(ctx, time.Until(due))
	r.begun = time.Now()
	return goes
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
