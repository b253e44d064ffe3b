package work_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// A peer that is lost between the answer to the ramdisk and Ironic's answer to
// the power-off leaves a complete introspection: the next worker ends it, and
// runs no hook again.
func TestPowerOffIsTakenOver(t *testing.T) {
	for name, gone := range map[string]func(o *inspecttest.Rig){
		"lost":        func(o *inspecttest.Rig) { o.RaftLog.Must(membership.EndSession{Session: o.Member.ID()}) },
		"ttl ran out": func(o *inspecttest.Rig) { o.Member.Leave(); time.Sleep(2 * membership.SessionTTL) }, // in a bubble
	} {
		t.Run(name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{inspecttest.After("patches", inspecttest.Patches)}
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
				lost := false
				o.Ironic.On(func(_ context.Context, call string) error {
					if !lost && strings.HasPrefix(call, ironic.PowerOff) {
						lost = true
						gone(o)
						return &ironic.Error{Err: context.Canceled}
					}
					return nil
				})
				o.Work(func(*work.Pool) { time.Sleep(time.Second) }) // in a bubble
				if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeProcessing ||
					rec.Delivered.Answer.Status != 200 {
					t.Fatalf("left in %v (%s), answered %+v", rec.State, rec.Error, rec.Delivered.Answer)
				}
				o.Member = o.RaftLog.NewSession("h2")
				o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeFinished, 2*membership.SessionTTL) })
				if n, off := len(o.Ironic.Sent("patch")), len(o.Ironic.Sent(ironic.PowerOff)); n != 1 || off != 1 {
					t.Errorf("patched %d times, switched off %d times", n, off)
				}
			})
		})
	}
}

// A peer that stops while Ironic is away gives the rest of a complete
// introspection to another at once.
func TestPowerOffIsHandedOver(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
		gone := false
		o.Ironic.On(func(_ context.Context, call string) error {
			if gone = gone || strings.HasPrefix(call, ironic.PowerOff); gone {
				return inspecttest.Away()
			}
			return nil
		})
		var stopped time.Time
		o.Work(func(*work.Pool) {
			time.Sleep(5 * time.Second) // in a bubble
			stopped = time.Now()
		})
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the pool stopped after %v", took)
		}
		if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeProcessing ||
			len(o.RaftLog.Truth().Claims()) != 0 {
			t.Errorf("left in %v (%s), claims %v", rec.State, rec.Error, o.RaftLog.Truth().Claims())
		}
		o.Ironic.Answers()
		o.Member, o.Health = o.RaftLog.NewSession("h2"), ironic.NewHealth(o.Ironic, o.Log)
		o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeFinished, 10*time.Second) })
	})
}

// A power call that is in flight when its task is interrupted comes to its end,
// and is not sent a second time by the next worker; it is not retried either.
func TestPowerCallIsNotCut(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Slowly(ironic.PowerReboot, work.StopGrace+work.CallGrace/2, inspecttest.Nothing)
		o.Work(func(*work.Pool) { time.Sleep(time.Second / 2) }) // in a bubble
		if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeWaiting {
			t.Errorf("the start ended in %v: %s", rec.State, rec.Error)
		}
		o.Work(func(*work.Pool) { time.Sleep(time.Minute / 2) }) // in a bubble
		if n := len(o.Ironic.Sent(ironic.PowerReboot)); n != 1 {
			t.Errorf("the machine was reset %d times", n)
		}
	})
}

// After the interruption a power call is not begun, by a retry either.
func TestPowerCallIsNotRetriedAfterTheStop(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		tries := 0
		o.Ironic.On(func(ctx context.Context, call string) error {
			if !strings.HasPrefix(call, ironic.PowerReboot) {
				return nil
			}
			for tries++; ; tries++ { // as the client does, whose tries ask the guard
				time.Sleep(work.StopGrace + time.Second) // in a bubble
				if err := ironic.Allowed(ctx); err != nil {
					return &ironic.Error{Err: err}
				}
			}
		})
		o.Work(func(*work.Pool) { time.Sleep(time.Second / 2) }) // in a bubble
		r := o.RaftLog.Truth().QueueOf(inspecttest.NodeA)
		if tries != 1 || len(r) != 1 || len(o.RaftLog.Truth().Claims()) != 0 {
			t.Errorf("%d tries, queue %+v, claims %v", tries, r, o.RaftLog.Truth().Claims())
		}
	})
}

// A start that only waits for its turn is given back when the peer stops.
func TestTurnIsNotWaitedForAtTheStop(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.RebootThrottle = 15 * time.Second
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Accept(inspecttest.NodeB, inspecttest.MacB)
		var stopped time.Time
		o.Work(func(*work.Pool) {
			time.Sleep(time.Second) // in a bubble
			stopped = time.Now()
		})
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the pool stopped after %v", took)
		}
		var states []introspection.NodeState
		for _, node := range []string{inspecttest.NodeA, inspecttest.NodeB} {
			rec, _ := o.RaftLog.Truth().Record(node)
			states = append(states, rec.State)
		}
		slices.Sort(states)
		if !slices.Equal(states, []introspection.NodeState{introspection.NodeStarting, introspection.NodeWaiting}) ||
			len(o.RaftLog.Truth().Claims()) != 0 {
			t.Errorf("states %v, claims %v", states, o.RaftLog.Truth().Claims())
		}
	})
}
