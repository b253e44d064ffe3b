package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shaky is an authority that can be confirmed for a while.
type shaky struct {
	fakeTenure
	lost  atomic.Bool
	asked atomic.Int64
}

func (s *shaky) Confirm(ctx context.Context, _ time.Time) error {
	s.asked.Add(1)
	if s.lost.Load() {
		<-ctx.Done() // a leader that is cut off gets no answer
		return context.Cause(ctx)
	}
	return nil
}

func TestEffectEndsWhenAuthorityIsNotConfirmedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = time.Second
		a := &shaky{}
		ctx, cancel, err := Confirmed(t.Context(), a, d)
		if err != nil {
			t.Fatal(err)
		}
		defer cancel()
		time.Sleep(time.Minute) // in a bubble: renewed again and again
		if ctx.Err() != nil {
			t.Fatalf("the effect was cut off although leadership was confirmed: %v", context.Cause(ctx))
		}
		if n := a.asked.Load(); n < 150 {
			t.Errorf("confirmed %d times in a minute, want three times in each %v", n, d)
		}
		a.lost.Store(true)
		lost := time.Now()
		<-ctx.Done()
		if after := time.Since(lost); after > d {
			t.Errorf("the effect went on for %v after the last proof, at most %v is allowed", after, d)
		}
	})
}

func TestEffectDoesNotBeginWithoutAProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &shaky{}
		a.lost.Store(true)
		if _, _, err := Confirmed(t.Context(), a, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a proof that did not come in time", err)
		}
	})
}
