package inspector

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// silent makes Ironic take questions and answer none from now on, for a while:
// its process is stopped, its connections stay open. A call gives up after
// limit, a ping when its context ends.
func (o *rig) silent(d, limit time.Duration) {
	hung, end := context.WithCancel(o.ctx)
	time.AfterFunc(d, end) // in a bubble
	o.ironic.on(func(ctx context.Context, call string) error {
		limit := limit
		if call == "ping" {
			limit = pingTimeout
		}
		tries, stop := context.WithTimeout(ctx, limit)
		defer stop()
		select {
		case <-hung.Done():
			return nil
		case <-tries.Done():
		}
		if call == "ping" {
			return &IronicError{Message: "no answer", Err: context.DeadlineExceeded}
		}
		return unanswered(limit)
	})
}

// unanswered is a call that had no answer in all its tries.
func unanswered(limit time.Duration) error {
	return &IronicError{Call: "GET v1/nodes", Message: fmt.Sprintf("nothing came within %v (4 tries)", limit/4)}
}

// Ironic is silent, for longer than a call and its tries last and for less than
// it takes to notice: no introspection ends in error, however many tries fit
// and whenever the silence begins and ends.
func TestSilentIronicIsWaitedFor(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 4 * time.Second, 12 * time.Second, 30 * time.Second} {
		for _, longer := range []time.Duration{0, 100 * time.Millisecond, time.Second, 2900 * time.Millisecond, 20 * time.Second} {
			for phase := range 6 {
				inRig(t, func(o *rig) {
					ctx, stop := context.WithCancel(o.ctx)
					defer stop()
					go o.health.Run(ctx)
					time.Sleep(2 * time.Duration(phase) * time.Second) // in a bubble
					o.silent(limit+longer, limit)
					o.accept(nodeA, macA)
					o.work(func(*WorkerPool) {
						v, err := o.notifier.Wait(o.ctx, func(v fsm.View) bool {
							rec, _ := v.Record(nodeA)
							return rec.State == introspection.NodeWaiting || rec.State == introspection.NodeError
						})
						if err != nil {
							t.Fatal(err)
						}
						if rec, _ := v.Record(nodeA); rec.State != introspection.NodeWaiting {
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
		inRig(t, func(o *rig) {
			ctx, stop := context.WithCancel(o.ctx)
			defer stop()
			go o.health.Run(ctx)
			o.silent(limit+100*time.Millisecond, limit)
			o.accept(nodeA, macA)
			o.work(func(*WorkerPool) {
				o.becomes(nodeA, introspection.NodeWaiting, time.Minute)
				time.Sleep(10 * time.Second) // in a bubble
				o.silent(limit+longer, limit)
				o.accept(nodeB, macB)
				v, err := o.notifier.Wait(o.ctx, func(v fsm.View) bool {
					rec, _ := v.Record(nodeB)
					return rec.State == introspection.NodeWaiting || rec.State == introspection.NodeError
				})
				if err != nil {
					t.Fatal(err)
				}
				if rec, _ := v.Record(nodeB); rec.State != introspection.NodeWaiting {
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
		inRig(t, func(o *rig) {
			ctx, stop := context.WithCancel(o.ctx)
			defer stop()
			go o.health.Run(ctx)
			o.ironic.on(func(_ context.Context, call string) error {
				if !strings.HasPrefix(call, "boot") || !strings.HasSuffix(call, nodeA) {
					return nil
				}
				time.Sleep(limit) // in a bubble
				return unanswered(limit)
			})
			o.accept(nodeA, macA)
			o.accept(nodeB, macB)
			o.work(func(*WorkerPool) {
				o.becomes(nodeB, introspection.NodeWaiting, time.Second)
				rec := o.becomes(nodeA, introspection.NodeError, 3*limit+10*time.Second)
				if want := "Failed to set boot device to PXE: nothing came within"; !strings.HasPrefix(rec.Error, want) {
					t.Errorf("%q, want %q", rec.Error, want)
				}
			})
		})
	}
}
