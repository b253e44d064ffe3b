package inspector

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A peer that is lost between the answer to the ramdisk and Ironic's answer to
// the power-off leaves a complete introspection: the next worker ends it, and
// runs no hook again.
func TestPowerOffIsTakenOver(t *testing.T) {
	for name, gone := range map[string]func(o *rig){
		"lost":        func(o *rig) { o.raftLog.must(membership.EndSession{Session: o.member.ID()}) },
		"ttl ran out": func(o *rig) { o.member.leave(); time.Sleep(2 * membership.SessionTTL) }, // in a bubble
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.hooks = []Hook{afterHook{"patches", patches}}
				o.boots(nodeA, macA)
				o.calls(nodeA, macA, "")
				lost := false
				o.ironic.on(func(_ context.Context, call string) error {
					if !lost && strings.HasPrefix(call, PowerOff) {
						lost = true
						gone(o)
						return &IronicError{Err: context.Canceled}
					}
					return nil
				})
				o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
				if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeProcessing || rec.Delivered.Answer.Status != 200 {
					t.Fatalf("left in %v (%s), answered %+v", rec.State, rec.Error, rec.Delivered.Answer)
				}
				o.member = o.raftLog.newSession("h2")
				o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeFinished, 2*membership.SessionTTL) })
				if n, off := len(o.ironic.sent("patch")), len(o.ironic.sent(PowerOff)); n != 1 || off != 1 {
					t.Errorf("patched %d times, switched off %d times", n, off)
				}
			})
		})
	}
}

// A peer that stops while Ironic is away gives the rest of a complete
// introspection to another at once.
func TestPowerOffIsHandedOver(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		o.calls(nodeA, macA, "")
		gone := false
		o.ironic.on(func(_ context.Context, call string) error {
			if gone = gone || strings.HasPrefix(call, PowerOff); gone {
				return away()
			}
			return nil
		})
		var stopped time.Time
		o.work(func(*WorkerPool) {
			time.Sleep(5 * time.Second) // in a bubble
			stopped = time.Now()
		})
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the pool stopped after %v", took)
		}
		if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeProcessing || len(o.raftLog.truth().Claims()) != 0 {
			t.Errorf("left in %v (%s), claims %v", rec.State, rec.Error, o.raftLog.truth().Claims())
		}
		o.ironic.answers()
		o.member, o.health = o.raftLog.newSession("h2"), NewIronicHealth(o.ironic, o.log)
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeFinished, 10*time.Second) })
	})
}

// A power call that is in flight when its task is interrupted comes to its end,
// and is not sent a second time by the next worker; it is not retried either.
func TestPowerCallIsNotCut(t *testing.T) {
	inRig(t, func(o *rig) {
		o.accept(nodeA, macA)
		o.slowly(PowerReboot, stopGrace+callGrace/2, nothing)
		o.work(func(*WorkerPool) { time.Sleep(time.Second / 2) }) // in a bubble
		if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeWaiting {
			t.Errorf("the start ended in %v: %s", rec.State, rec.Error)
		}
		o.work(func(*WorkerPool) { time.Sleep(time.Minute / 2) }) // in a bubble
		if n := len(o.ironic.sent(PowerReboot)); n != 1 {
			t.Errorf("the machine was reset %d times", n)
		}
	})
}

// After the interruption a power call is not begun, by a retry either.
func TestPowerCallIsNotRetriedAfterTheStop(t *testing.T) {
	inRig(t, func(o *rig) {
		o.accept(nodeA, macA)
		tries := 0
		o.ironic.on(func(ctx context.Context, call string) error {
			if !strings.HasPrefix(call, PowerReboot) {
				return nil
			}
			for tries++; ; tries++ { // as the client does, whose tries ask the guard
				time.Sleep(stopGrace + time.Second) // in a bubble
				if err := Allowed(ctx); err != nil {
					return &IronicError{Err: err}
				}
			}
		})
		o.work(func(*WorkerPool) { time.Sleep(time.Second / 2) }) // in a bubble
		r := o.raftLog.truth().QueueOf(nodeA)
		if tries != 1 || len(r) != 1 || len(o.raftLog.truth().Claims()) != 0 {
			t.Errorf("%d tries, queue %+v, claims %v", tries, r, o.raftLog.truth().Claims())
		}
	})
}

// A start that only waits for its turn is given back when the peer stops.
func TestTurnIsNotWaitedForAtTheStop(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.RebootThrottle = 15 * time.Second
		o.accept(nodeA, macA)
		o.accept(nodeB, macB)
		var stopped time.Time
		o.work(func(*WorkerPool) {
			time.Sleep(time.Second) // in a bubble
			stopped = time.Now()
		})
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the pool stopped after %v", took)
		}
		var states []introspection.NodeState
		for _, node := range []string{nodeA, nodeB} {
			rec, _ := o.raftLog.truth().Record(node)
			states = append(states, rec.State)
		}
		slices.Sort(states)
		if !slices.Equal(states, []introspection.NodeState{introspection.NodeStarting, introspection.NodeWaiting}) || len(o.raftLog.truth().Claims()) != 0 {
			t.Errorf("states %v, claims %v", states, o.raftLog.truth().Claims())
		}
	})
}
