package work_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
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

// fails has calls meet an error for a minute, from the first with a prefix on: all, or all but questions
// whether Ironic is there and readings of a node. It returns what stops the questions.
func fails(o *inspecttest.Rig, from string, all bool, err error) (stop func()) {
	ctx, stop := context.WithCancel(o.Ctx)
	go o.Health.Run(ctx)
	var begun atomic.Bool
	o.Ironic.On(func(_ context.Context, call string) error {
		if strings.HasPrefix(call, from) && !begun.Swap(true) {
			time.AfterFunc(time.Minute, o.Ironic.Answers)
		}
		if !begun.Load() || !all && (call == "ping" || strings.HasPrefix(call, "node ")) {
			return nil
		}
		return err
	})
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

// Ironic judges nothing for a minute: a conductor is restarted while its API answers, a proxy has no
// route to it, or it, or Keystone, refuses this peer's login. Starts wait, and so do callbacks, at each of their steps.
func TestIronicThatDoesNotJudgeIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		all bool
		err error
	}{
		"no conductor, to a PUT":   {false, noConductor(404)},
		"no conductor, to a PATCH": {false, noConductor(400)},
		"no free workers": {false, &ironic.Error{Status: 503, Own: true,
			Message: "Requested action cannot be performed due to lack of free conductor workers."}},
		"a database that fails over": {true, &ironic.Error{Status: 500, Own: true,
			Message: "(pymysql.err.OperationalError) (2013, 'Lost connection to MySQL server during query')"}},
		"a database that is locked": {false, &ironic.Error{Status: 500, Own: true,
			Message: "(sqlite3.OperationalError) database is locked"}},
		"a conductor that died": {false, &ironic.Error{Status: 500, Own: true,
			Message: "Unable to establish connection to http://host:8089: HTTPConnectionPool(host='host', port=8089)"}},
		"a failure without a BMC": {true, &ironic.Error{Status: 500, Own: true, NoBMC: true, Message: "Unexpected error"}},
		"a proxy without a route": {true, &ironic.Error{Status: 404, Message: "Ironic answered 404 Not Found"}},
		"a refused password":      {true, &ironic.Error{Status: 401, Message: "Ironic refused the credentials"}},
		"a failed login": {true, &ironic.Error{Status: 500, Message: "Keystone answered 500",
			Err: ironic.ErrNotSent}},
	} {
		for _, step := range []string{"node", "boot", ironic.PowerReboot} {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				defer fails(o, step, c.all, c.err)()
				o.Accept(inspecttest.NodeA, inspecttest.MacA)
				o.Work(func(*work.Pool) {
					if rec := booted(o, inspecttest.NodeA); rec.State != introspection.NodeWaiting {
						t.Errorf("no-verdict: start at %s, %s: %s", step, name, rec.Error)
					}
				})
			})
		}
		for _, step := range []string{"node", "patch", ironic.PowerOff} {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{inspecttest.After("patches", inspecttest.Patches)}
				defer fails(o, step, c.all, c.err)()
				if rec := o.Processed(2 * time.Hour); rec.Error != "" || rec.Delivered.Answer.Status != 200 {
					t.Errorf("no-verdict: callback at %s, %s: %q, %+v", step, name, rec.Error, rec.Delivered.Answer)
				}
			})
		}
	}
}

// A proxy that lets all but one thing through: that is judged as of a gateway.
func TestProxyWithoutRouteToOneThing(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		defer fails(o, "no such call", false, nil)()
		o.Ironic.Met("boot", &ironic.Error{Status: 404, Message: "no route"})
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Minute)
			if want := "Failed to set boot device to PXE: no route"; rec.Error != want {
				t.Errorf("one-thing: %q, want %q", rec.Error, want)
			}
		})
	})
}

// The conductor of one node does not come back: its introspection ends with its time, is tried seldom
// and in one claim, and the worker is free for others meanwhile. The log has what Ironic said.
func TestNodeWithoutConductorEndsWithItsTime(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Workers, o.Conf.Timeout = 1, 10*time.Minute
		var logged strings.Builder
		o.Log = slog.New(slog.NewTextHandler(&logged, nil))
		defer fails(o, "no such call", false, nil)()
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
		const want = `reason="Introspection timeout" err="given back: No valid host was found.`
		if !strings.Contains(logged.String(), want) {
			t.Errorf("busy-ends: no %s in the log: %s", want, &logged)
		}
	})
}

// A peer that stops gives a start back at once that waits for a busy Ironic.
func TestStartThatMetABusyIronicIsGivenBack(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		defer fails(o, "boot", false, noConductor(404))()
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
