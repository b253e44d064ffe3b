package work_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// noConductor is what Ironic's API answers while the conductor of a node is restarted.
func noConductor(status int) error {
	return &ironic.Error{Status: status, Message: "No valid host was found. Reason: No conductor service registered " +
		"which supports driver ipmi for conductor group \"\"."}
}

// meets has all calls but questions and readings of a node meet an error for a while, and returns what
// stops Ironic's questions.
func meets(o *inspecttest.Rig, d time.Duration, err error) (stop func()) {
	ctx, stop := context.WithCancel(o.Ctx)
	go o.Health.Run(ctx)
	o.Ironic.On(func(_ context.Context, call string) error {
		if call == "ping" || strings.HasPrefix(call, "node ") {
			return nil
		}
		return err
	})
	time.AfterFunc(d, o.Ironic.Answers)
	return stop
}

// booted waits until a node waits for its callback, or its introspection has ended.
func booted(o *inspecttest.Rig, node string) introspection.Record {
	v, err := o.Notifier.Wait(o.Ctx, func(v fsm.View) bool {
		rec, _ := v.Record(node)
		return rec.State == introspection.NodeWaiting || rec.State == introspection.NodeError
	})
	if err != nil {
		o.Fatal(err)
	}
	rec, _ := v.Record(node)
	return rec
}

// A conductor is restarted, for a minute, while Ironic's API answers: starts wait, and so do callbacks
// at each of their steps.
func TestIronicWithoutConductorIsWaitedFor(t *testing.T) {
	for _, status := range []int{400, 404} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			defer meets(o, time.Minute, noConductor(status))()
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Work(func(*work.Pool) {
				if rec := booted(o, inspecttest.NodeA); rec.State != introspection.NodeWaiting {
					t.Errorf("busy-is-no-verdict: a start that met %d: %s", status, rec.Error)
				}
			})
		})
		for name, hook := range map[string]func(context.Context, *inspector.Task) error{
			"hook": inspecttest.Patches, "power off": func(context.Context, *inspector.Task) error { return nil }} {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				defer meets(o, time.Minute, noConductor(status))()
				o.Hooks = []inspector.Hook{inspecttest.After("h", hook)}
				if rec := o.Processed(2 * time.Hour); rec.Error != "" || rec.Delivered.Answer.Status != 200 {
					t.Errorf("busy-is-no-verdict: %s that met %d: %q, %+v", name, status, rec.Error, rec.Delivered.Answer)
				}
			})
		}
	}
}

// The conductor of one node does not come back: its introspection ends with its time, is tried seldom
// and in one claim, and the worker is free for others meanwhile.
func TestNodeWithoutConductorEndsWithItsTime(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Workers, o.Conf.Timeout = 1, 10*time.Minute
		defer meets(o, time.Hour, nil)()
		tries := 0
		o.Ironic.On(func(_ context.Context, call string) error {
			if call != "boot pxe "+inspecttest.NodeA {
				return nil
			}
			tries++
			return noConductor(404)
		})
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) {
			time.Sleep(time.Second) // in a bubble
			o.Accept(inspecttest.NodeB, inspecttest.MacB)
			o.Becomes(inspecttest.NodeB, introspection.NodeWaiting, time.Second)
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, o.Conf.Timeout+time.Minute)
			if claims := o.RaftLog.Count(inspecttest.IsClaim); rec.Error != work.TextTimeout || tries > 150 || claims != 2 {
				t.Errorf("busy-ends: %q after %d tries and %d claims", rec.Error, tries, claims)
			}
		})
	})
}

// A peer that stops gives a start back at once that waits for a busy Ironic.
func TestStartThatMetABusyIronicIsGivenBack(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		defer meets(o, time.Hour, noConductor(404))()
		q := o.Accept(inspecttest.NodeA, inspecttest.MacA)
		var stopped time.Time
		o.Work(func(*work.Pool) {
			time.Sleep(time.Second) // in a bubble
			stopped = time.Now()
		})
		r, _ := o.RaftLog.Truth().QueuedRequest(q.Request)
		if took := time.Since(stopped); !r.Claim.IsZero() || r.Attempts != 0 || took > time.Second {
			t.Errorf("busy-given-back: after %v: %s", took, fmt.Sprintf("%+v", r))
		}
	})
}
