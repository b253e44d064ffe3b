package work_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// Ironic is silent, for longer than a call and its tries last and for less than
// it takes to notice: no introspection ends in error, however many tries fit
// and whenever the silence begins and ends.
func TestSilentIronicIsWaitedFor(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 4 * time.Second, 12 * time.Second, 30 * time.Second} {
		for _, longer := range []time.Duration{0, 100 * time.Millisecond, time.Second, 2900 * time.Millisecond,
			20 * time.Second} {
			for phase := range 6 {
				inspecttest.InRig(t, func(o *inspecttest.Rig) {
					ctx, stop := context.WithCancel(o.Ctx)
					defer stop()
					go o.Health.Run(ctx)
					time.Sleep(2 * time.Duration(phase) * time.Second) // in a bubble
					o.Silent(limit+longer, limit)
					o.Accept(inspecttest.NodeA, inspecttest.MacA)
					o.Work(func(*work.Pool) {
						v, err := o.Notifier.Wait(o.Ctx, func(v fsm.View) bool {
							rec, _ := v.Record(inspecttest.NodeA)
							return rec.State == introspection.NodeWaiting || rec.State == introspection.NodeError
						})
						if err != nil {
							t.Fatal(err)
						}
						if rec, _ := v.Record(inspecttest.NodeA); rec.State != introspection.NodeWaiting {
							t.Errorf("silence-is-no-verdict: Ironic was silent for %v, a call lasts %v: %s", limit+longer, limit, rec.Error)
						}
					})
				})
			}
		}
	}
}

// Ironic is silent a second time, when it is asked often already, and for less than
// a question takes: that is no verdict either.
func TestSecondSilenceIsWaitedFor(t *testing.T) {
	const limit = 2 * time.Second
	for _, longer := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			ctx, stop := context.WithCancel(o.Ctx)
			defer stop()
			go o.Health.Run(ctx)
			o.Silent(limit+100*time.Millisecond, limit)
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Work(func(*work.Pool) {
				o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Minute)
				time.Sleep(10 * time.Second) // in a bubble
				o.Silent(limit+longer, limit)
				o.Accept(inspecttest.NodeB, inspecttest.MacB)
				v, err := o.Notifier.Wait(o.Ctx, func(v fsm.View) bool {
					rec, _ := v.Record(inspecttest.NodeB)
					return rec.State == introspection.NodeWaiting || rec.State == introspection.NodeError
				})
				if err != nil {
					t.Fatal(err)
				}
				if rec, _ := v.Record(inspecttest.NodeB); rec.State != introspection.NodeWaiting {
					t.Errorf("silence-is-no-verdict: silent again for %v: %s", limit+longer, rec.Error)
				}
			})
		})
	}
}

// Ironic answers, and is silent about one node: that one's introspection ends in
// error, after a second silence, and others go on.
func TestIronicSilentAboutOneNode(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 12 * time.Second, time.Minute} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			ctx, stop := context.WithCancel(o.Ctx)
			defer stop()
			go o.Health.Run(ctx)
			o.Ironic.On(func(_ context.Context, call string) error {
				if !strings.HasPrefix(call, "boot") || !strings.HasSuffix(call, inspecttest.NodeA) {
					return nil
				}
				time.Sleep(limit) // in a bubble
				return inspecttest.Unanswered(limit)
			})
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Accept(inspecttest.NodeB, inspecttest.MacB)
			o.Work(func(*work.Pool) {
				o.Becomes(inspecttest.NodeB, introspection.NodeWaiting, time.Second)
				rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, 3*limit+10*time.Second)
				if want := "Failed to set boot device to PXE: nothing came within"; !strings.HasPrefix(rec.Error, want) {
					t.Errorf("%q, want %q", rec.Error, want)
				}
			})
		})
	}
}
