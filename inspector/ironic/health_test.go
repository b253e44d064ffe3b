package ironic_test

import (
	"context"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

func TestReach(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		ctx, stop := context.WithCancel(o.Ctx)
		go o.Health.Run(ctx)
		defer stop()
		if err := o.Health.Err(); err != nil {
			t.Errorf("before it asked: %v", err)
		}
		// Asked seldom while it answers, often while it does not.
		time.Sleep(time.Minute) // in a bubble
		if n := len(o.Ironic.When("ping")); n < 6 || n > 7 {
			t.Errorf("asked %d times in a minute", n)
		}
		o.Ironic.Met("ping", inspecttest.Away())
		time.Sleep(ironic.HealthyInterval + time.Millisecond) // in a bubble
		const want = "Ironic cannot be reached from this peer: connection refused"
		if err := o.Health.Err(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		o.Ironic.Answers()
		time.Sleep(ironic.UnhealthyInterval + time.Millisecond) // in a bubble
		if err := o.Health.Err(); err != nil {
			t.Errorf("it answers again: %v", err)
		}
	})
}

// One question takes a bounded time, and one that was withdrawn says nothing.
func TestReachIsBounded(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Ironic.On(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return &ironic.Error{Err: ctx.Err()}
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(o.Ctx, time.Second)
		defer cancel()
		if err := o.Health.Check(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("withdrawn: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		if err := o.Health.Check(o.Ctx); err == nil || time.Since(began) > ironic.PingTimeout {
			t.Errorf("no answer: %v after %v", err, time.Since(began))
		}
	})
}

// Whether to act on it as a leader is decided when the others have had time to
// notice the same.
func TestReachLasting(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		check := func() { _ = o.Health.Check(o.Ctx) } // Err tells
		o.Ironic.Met("ping", inspecttest.Away())
		check()
		for _, c := range []struct {
			after time.Duration
			meets error
			lasts bool
		}{
			{ironic.LastingAfter - time.Second, inspecttest.Away(), false},
			{2 * time.Second, inspecttest.Away(), true},
			{0, nil, false},
			{time.Hour, nil, false},
			{0, inspecttest.Away(), false},
			{ironic.LastingAfter, inspecttest.Away(), true},
		} {
			time.Sleep(c.after) // in a bubble
			o.Ironic.Met("ping", c.meets)
			check()
			if err := o.Health.Lasting(); (err != nil) != c.lasts {
				t.Errorf("%v later, meeting %v: %v", c.after, c.meets, err)
			}
		}
	})
}
