package inspector

import (
	"context"
	"testing"
	"time"
)

func TestReach(t *testing.T) {
	inRig(t, func(o *rig) {
		ctx, stop := context.WithCancel(o.ctx)
		go o.health.Run(ctx)
		defer stop()
		if err := o.health.Err(); err != nil {
			t.Errorf("before it asked: %v", err)
		}
		// Asked seldom while it answers, often while it does not.
		time.Sleep(time.Minute) // in a bubble
		if n := len(o.ironic.when("ping")); n < 6 || n > 7 {
			t.Errorf("asked %d times in a minute", n)
		}
		o.ironic.met("ping", away())
		time.Sleep(healthyInterval + time.Millisecond) // in a bubble
		const want = "Ironic cannot be reached from this peer: connection refused"
		if err := o.health.Err(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		o.ironic.answers()
		time.Sleep(unhealthyInterval + time.Millisecond) // in a bubble
		if err := o.health.Err(); err != nil {
			t.Errorf("it answers again: %v", err)
		}
	})
}

// One question takes a bounded time, and one that was withdrawn says nothing.
func TestReachIsBounded(t *testing.T) {
	inRig(t, func(o *rig) {
		o.ironic.on(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return &IronicError{Err: ctx.Err()}
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(o.ctx, time.Second)
		defer cancel()
		if err := o.health.Check(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("withdrawn: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		if err := o.health.Check(o.ctx); err == nil || time.Since(began) > pingTimeout {
			t.Errorf("no answer: %v after %v", err, time.Since(began))
		}
	})
}

// Whether to act on it as a leader is decided when the others have had time to
// notice the same.
func TestReachLasting(t *testing.T) {
	inRig(t, func(o *rig) {
		check := func() { _ = o.health.Check(o.ctx) } // Err tells
		o.ironic.met("ping", away())
		check()
		for _, c := range []struct {
			after time.Duration
			meets error
			lasts bool
		}{
			{lastingAfter - time.Second, away(), false},
			{2 * time.Second, away(), true},
			{0, nil, false},
			{time.Hour, nil, false},
			{0, away(), false},
			{lastingAfter, away(), true},
		} {
			time.Sleep(c.after) // in a bubble
			o.ironic.met("ping", c.meets)
			check()
			if err := o.health.Lasting(); (err != nil) != c.lasts {
				t.Errorf("%v later, meeting %v: %v", c.after, c.meets, err)
			}
		}
	})
}
