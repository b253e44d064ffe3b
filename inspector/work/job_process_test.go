package work_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// The answer is given before the machine of the ramdisk is switched off.
func TestAnswerBeforePowerOff(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Slowly(ironic.PowerOff, time.Second, func() {
			rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
			if rec.State != introspection.NodeProcessing || rec.Delivered.Answer.Status != 200 || rec.Processed.IsZero() {
				t.Errorf("switched off in %v, answered %+v", rec.State, rec.Delivered.Answer)
			}
		})
		if rec := o.Processed(time.Minute); rec.State != introspection.NodeFinished || rec.Error != "" {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
		if calls := fmt.Sprint(o.Ironic.Sent("")); calls !=
			fmt.Sprint([]string{"node " + inspecttest.NodeA, ironic.PowerOff + " " + inspecttest.NodeA}) {
			t.Error(calls)
		}
	})
}

// A machine that somebody deploys while the last hook runs stays on; before any
// further hook the introspection ends.
func TestNodeIsReadBeforeEachHook(t *testing.T) {
	for _, c := range []struct {
		name, state string
		hooks       int
		want        string // of the error
	}{
		{"during the last hook", "active", 1, ""},
		{"during the last hook, cleaning", "clean wait", 1, ""},
		{"during the first of two", "active", 2, `Invalid provision state for introspection: "active"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{inspecttest.After("slow", func(context.Context, *inspector.Task) error {
					time.Sleep(5 * time.Second) // in a bubble
					inspecttest.TakenBy(o, inspecttest.NodeA, c.state)()
					return nil
				})}
				if c.hooks == 2 {
					o.Hooks = append(o.Hooks, inspecttest.After("patches", inspecttest.Patches))
				}
				rec := o.Processed(time.Minute)
				if !strings.HasPrefix(rec.Error, c.want) || (c.want == "") != (rec.State == introspection.NodeFinished) {
					t.Errorf("%v: %q", rec.State, rec.Error)
				}
				if calls := append(o.Ironic.Sent(ironic.PowerOff), o.Ironic.Sent("patch")...); len(calls) > 0 {
					t.Errorf("somebody else's node: %v", calls)
				}
			})
		})
	}
}

// A node that was patched a moment ago was read with it.
func TestPatchIsAReading(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		slow := func(ctx context.Context, t *inspector.Task) error {
			time.Sleep(5 * time.Second) // in a bubble
			return t.PatchNode(ctx)
		}
		o.Hooks = []inspector.Hook{inspecttest.After("one", slow), inspecttest.After("two", slow)}
		if rec := o.Processed(time.Minute); rec.State != introspection.NodeFinished {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
		if n := len(o.Ironic.Sent("node")); n != 1 {
			t.Errorf("the node was read %d times besides", n)
		}
	})
}

// Between two hooks the time may run out.
func TestProcessingThatTakesTooLong(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Timeout = time.Minute
		o.Hooks = []inspector.Hook{
			inspecttest.After("slow", func(context.Context, *inspector.Task) error {
				time.Sleep(2 * time.Minute) // in a bubble
				return nil
			}),
			inspecttest.After("patches", inspecttest.Patches),
		}
		if rec := o.Processed(5 * time.Minute); rec.Error != work.TextTimeout || len(o.Ironic.Sent("patch")) > 0 {
			t.Errorf("%q, %v", rec.Error, o.Ironic.Sent("patch"))
		}
	})
}

func TestHooksFail(t *testing.T) {
	problem := document.Failed("no %s", "disk")
	said := &ironic.Error{Status: 500, Message: "said Ironic"}
	for _, c := range []struct {
		name   string
		hook   inspector.Hook
		status int
		want   string
	}{
		{"problem before", inspecttest.Before("h", func(context.Context, *document.Document) error { return problem }), 400,
			inspector.FailuresHead + "Preprocessing hook h: no disk"},
		{"error before", inspecttest.Before("h",
			func(context.Context, *document.Document) error { return fmt.Errorf("x: %w", said) }), 400,
			inspector.FailuresHead + "Unexpected exception IronicError during preprocessing in hook h: x: said Ironic"},
		{"panic before", inspecttest.Before("h", func(context.Context, *document.Document) error { panic("boom") }), 400,
			inspector.FailuresHead + "Unexpected exception panic during preprocessing in hook h: boom"},
		{"endless before", inspecttest.Before("h", func(context.Context, *document.Document) error {
			time.Sleep(6 * time.Minute) // in a bubble
			return nil
		}), 400,
			inspector.FailuresHead +
				"Unexpected exception TimeoutError during preprocessing in hook h: hook h did not end within 5m0s"},
		{"problem", inspecttest.After("h",
			func(context.Context, *inspector.Task) error { return fmt.Errorf("x: %w", problem) }), 400, "no disk"},
		{"error", inspecttest.After("h", func(context.Context, *inspector.Task) error { return said }), 500,
			"Unexpected exception IronicError during processing: said Ironic"},
		{"other error", inspecttest.After("h", func(context.Context, *inspector.Task) error { return errors.New("x") }), 500,
			"Unexpected exception errors.errorString during processing: x"},
		{"panic", inspecttest.After("h", func(context.Context, *inspector.Task) error { panic("boom") }), 500,
			"Unexpected exception panic during processing: boom"},
		{"endless", inspecttest.After("h", func(context.Context, *inspector.Task) error {
			time.Sleep(6 * time.Minute) // in a bubble
			return nil
		}), 500,
			"Unexpected exception TimeoutError during processing: hook h did not end within 5m0s"},
		{"own context", inspecttest.After("h", func(context.Context, *inspector.Task) error { return context.Canceled }), 500,
			"Unexpected exception errors.errorString during processing: context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Conf.StoreData = true
				o.Hooks = []inspector.Hook{c.hook}
				rec := o.Processed(10 * time.Minute)
				if rec.State != introspection.NodeError || rec.Error != c.want ||
					rec.Delivered.Answer != (introspection.Answer{Status: c.status, Message: c.want}) {
					t.Errorf("%v: %q, answered %+v", rec.State, rec.Error, rec.Delivered.Answer)
				}
				if rec.Unprocessed.IsZero() {
					t.Error("the data that failed is not kept")
				}
				if calls := o.Ironic.Sent(ironic.PowerOff); len(calls) > 0 {
					t.Errorf("a failed node is left on: %v", calls)
				}
				time.Sleep(2 * time.Minute) // in a bubble: who does not end goes on
			})
		})
	}
}

// All hooks look at the data, whatever the others say of it; but not after one
// that does not end, for it may still be writing.
func TestFailuresAreCollected(t *testing.T) {
	says := func(name string) inspector.Hook {
		return inspecttest.Before(name, func(_ context.Context, d *document.Document) error {
			return errors.Join(d.Set(name, 1), document.Failed("%s", name))
		})
	}
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Hooks = []inspector.Hook{says("a"), inspecttest.After("x", inspecttest.Patches), says("b")}
		want := inspector.FailuresHead + "Preprocessing hook a: a\nPreprocessing hook b: b"
		if rec := o.Processed(time.Minute); rec.Error != want {
			t.Errorf("%q", rec.Error)
		}
	})
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Limit = time.Second
		endless := inspecttest.Before("e", func(ctx context.Context, d *document.Document) error {
			for n := 0; ctx.Err() == nil || !testing.Short() && n < 2000; n++ {
				if err := d.Set(fmt.Sprint(n), 1); err != nil {
					return err
				}
				time.Sleep(time.Millisecond) // in a bubble
			}
			return nil
		})
		o.Hooks = []inspector.Hook{says("a"), endless, says("b")}
		want := inspector.FailuresHead +
			"Preprocessing hook a: a\nUnexpected exception TimeoutError during preprocessing in hook e: hook e did not end within 1s"
		if rec := o.Processed(time.Minute); rec.Error != want {
			t.Errorf("%q", rec.Error)
		}
		time.Sleep(time.Minute) // in a bubble
	})
}

// Ironic that cannot be reached when a callback begins: another peer does it.
func TestCallbackIsGivenBack(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		q := o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
		o.Ironic.Met("", inspecttest.Away())
		o.Work(func(*work.Pool) {
			time.Sleep(time.Second) // in a bubble
			if r, _ := o.RaftLog.Truth().QueuedRequest(q.Request); r.Attempts != 0 || !r.Claim.IsZero() {
				t.Errorf("given-back: %+v", r)
			}
		})
		o.Ironic.Met("node", &ironic.Error{Status: 500, Message: "said Ironic"})
		o.Health = ironic.NewHealth(o.Ironic, o.Log)
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second)
			if rec.Delivered.Answer !=
				(introspection.Answer{Status: 500, Message: "Failed to read the node from Ironic: said Ironic"}) {
				t.Errorf("%+v", rec.Delivered.Answer)
			}
		})
	})
}

// What was begun cannot be given back: it waits for Ironic, for as long as the
// introspection has, and its worker is free meanwhile.
func TestBegunCallbackWaitsForIronic(t *testing.T) {
	for back, want := range map[time.Duration]string{
		time.Minute: "",
		time.Hour: "Failed to power off node " + inspecttest.NodeA +
			", check its power management configuration: connection refused",
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Conf.Workers = 1
			o.Hooks = []inspector.Hook{inspecttest.After("h", func(context.Context, *inspector.Task) error {
				o.Ironic.Met("", inspecttest.Away())
				return nil
			})}
			time.AfterFunc(back, o.Ironic.Answers)
			ctx, cancel := context.WithCancel(o.Ctx)
			go o.Health.Run(ctx)
			defer cancel()
			time.AfterFunc(30*time.Second, func() {
				o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeB, Event: introspection.EventEnroll, Timeout: time.Second})
			})
			time.AfterFunc(40*time.Second, func() {
				o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeB, Event: introspection.EventTimeout})
			})
			rec := o.Processed(2 * time.Hour)
			if rec.Error != want || rec.Delivered.Answer.Status != 200 {
				t.Errorf("back after %v: %q, answered %+v", back, rec.Error, rec.Delivered.Answer)
			}
			if b, _ := o.RaftLog.Truth().Record(inspecttest.NodeB); b.State != introspection.NodeError ||
				b.Finished >= rec.Finished {
				t.Errorf("the worker was not free: %v ended at %v, the other at %v", b.State, b.Finished, rec.Finished)
			}
		})
	}
}

// Ironic's API is away while a hook has the node, for longer than a hook may take: the call waits,
// and is sent once more. A node that came into other hands meanwhile is left alone.
func TestHookWaitsForIronic(t *testing.T) {
	ways := map[string]func(*inspecttest.Rig, time.Duration) introspection.Record{
		"from the queue": (*inspecttest.Rig).Processed, "at once": (*inspecttest.Rig).ProcessedAtOnce}
	for state, patched := range map[string]int{"manageable": 1, "active": 0} {
		for way, processed := range ways {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{inspecttest.After("patches", inspecttest.Patches)}
				ctx, cancel := context.WithCancel(o.Ctx)
				go o.Health.Run(ctx)
				defer cancel()
				awayAtPatch(o, state)
				rec := processed(o, 2*time.Hour)
				if status := rec.Delivered.Answer.Status; (status == 200) != (patched == 1) || (rec.Error == "") != (patched == 1) {
					t.Errorf("restart-is-no-verdict: %s, %s: answered %d, ended %q", state, way, status, rec.Error)
				}
				if n := len(o.Ironic.Sent("patch")); n != patched {
					t.Errorf("read-before-it-is-sent-again: %s, %s: patched %d times, want %d", state, way, n, patched)
				}
			})
		}
	}
}

// awayAtPatch has Ironic be away from the first change of a node on, for longer than a hook may
// take. The node is in another state when Ironic is back.
func awayAtPatch(o *inspecttest.Rig, state string) {
	var away atomic.Bool
	o.Ironic.On(func(_ context.Context, call string) error {
		if strings.HasPrefix(call, "patch") && !away.Swap(true) {
			time.Sleep(6 * time.Second) // in a bubble: the tries of the client
			time.AfterFunc(2*work.HookLimit, func() {
				inspecttest.TakenBy(o, inspecttest.NodeA, state)()
				o.Ironic.Answers()
			})
		}
		if away.Load() {
			return inspecttest.Away()
		}
		return nil
	})
}

// A gateway answers for Ironic at one thing and Ironic at all else: what was begun
// is tried a few times and ends in error. Where that cannot be judged, because
// Ironic comes and goes, it ends with the introspection's time.
func TestGatewayFailsAtOneThing(t *testing.T) {
	const want = "Failed to power off node " + inspecttest.NodeA +
		", check its power management configuration: bad gateway"
	var asked atomic.Int32
	for _, c := range []struct {
		name  string
		limit time.Duration                  // until it ends
		tries int                            // of the power-off, at most
		away  func(after time.Duration) bool // what a question meets
	}{
		{"Ironic answers", 5 * time.Second, 10, func(time.Duration) bool { return false }},
		{"Ironic was away", 15 * time.Second, 40,
			func(after time.Duration) bool { return after > time.Second/4 && after < 3*time.Second }},
		{"Ironic comes and goes", 16 * time.Minute, 8000, func(time.Duration) bool { return asked.Add(1)%2 == 0 }},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			ctx, cancel := context.WithCancel(o.Ctx)
			go o.Health.Run(ctx)
			defer cancel()
			began, tries := time.Now(), 0
			o.Ironic.On(func(_ context.Context, call string) error {
				switch {
				case call == "ping" && c.away(time.Since(began)):
					return inspecttest.Away()
				case strings.HasPrefix(call, ironic.PowerOff) && time.Since(began) < 90*time.Minute:
					tries++
					time.Sleep(20 * time.Millisecond) // in a bubble
					return &ironic.Error{Status: http.StatusBadGateway, Message: "bad gateway"}
				default:
					return nil
				}
			})
			rec := o.Processed(2 * time.Hour)
			if took := time.Since(began); rec.Error != want || took > c.limit || tries < 2 || tries > c.tries {
				t.Errorf("one-thing: %s: ended after %v and %d tries: %q", c.name, took, tries, rec.Error)
			}
		})
	}
}

// A machine that cannot be switched off ends in error, but keeps its answer; one
// in enroll has no power management yet.
func TestPowerOffFails(t *testing.T) {
	for state, want := range map[string]string{
		"manageable": "Failed to power off node " + inspecttest.NodeA +
			", check its power management configuration: said Ironic", "enroll": "",
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Ironic.Met(ironic.PowerOff, &ironic.Error{Status: 500, Message: "said Ironic"})
			inspecttest.TakenBy(o, inspecttest.NodeA, state)()
			if rec := o.Processed(time.Minute); rec.Error != want || rec.Delivered.Answer.Status != 200 {
				t.Errorf("%s: %q, %+v", state, rec.Error, rec.Delivered.Answer)
			}
		})
	}
}

// A node with disable_power_off is inspected all the same: Ironic leaves it on for its own
// inspection, too.
func TestNodeThatStaysOnIsFinished(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Ironic.Met(ironic.PowerOff, &ironic.Error{Status: 409, Err: ironic.ErrStaysOn,
			Message: "Failed to set node power state to power off."})
		if rec := o.Processed(time.Minute); rec.State != introspection.NodeFinished || rec.Error != "" {
			t.Errorf("stays-on: %v: %q", rec.State, rec.Error)
		}
	})
}

// A request met again after its processing had begun ends in error: déjà vu.
func TestDejaVu(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Hooks = []inspector.Hook{inspecttest.After("patches", inspecttest.Patches)}
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		claim := o.Claims(o.Calls(inspecttest.NodeA, inspecttest.MacA, ""))
		o.RaftLog.Must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventProcess, Hook: "patches"})
		o.RaftLog.Must(membership.EndSession{Session: o.Member.ID()})
		o.Member.Open("id-h1")
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second)
			if !strings.Contains(rec.Error, "déjà vu") || !strings.Contains(rec.Error, "h1") ||
				!strings.Contains(rec.Error, "patches") {
				t.Errorf("%q", rec.Error)
			}
		})
		if calls := o.Ironic.Sent(""); len(calls) > 0 {
			t.Errorf("applied-once: %v", calls)
		}
	})
}

// A document that was met by every living peer, and lost by each, is given up
// by the name of the hook and of the peers, which no operator knows by their IDs.
func TestGivenUp(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		q := o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
		claim := o.Claims(q)
		o.RaftLog.Must(introspection.Mark{Claim: claim.Hold(), Hook: "poison"})
		o.RaftLog.Must(membership.EndSession{Session: o.Member.ID()})
		o.Member.Open("id-h1")
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second)
			want := "given up: every peer that processed the data was lost (h1), the last at hook poison"
			if rec.Error != want || rec.Delivered.Answer.Status != 500 {
				t.Errorf("%q, answered %+v", rec.Error, rec.Delivered.Answer)
			}
		})
	})
}

// Each hook is noted before it runs, and the power-off before the log names it;
// where notes cannot be kept the log has them.
func TestHooksAreNotedBeforeTheyRun(t *testing.T) {
	for name, broken := range map[string]error{"notes": nil, "the log": errors.New("no space left on device")} {
		t.Run(name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Notes.Err = broken
				var seen []string
				look := func(context.Context, *inspector.Task) error {
					if broken == nil {
						seen = append(seen, o.Notes.Last())
						return nil
					}
					claim, _ := o.RaftLog.View().ClaimOf(inspecttest.NodeA)
					request, _ := o.RaftLog.View().QueuedRequest(claim.Request)
					seen = append(seen, request.Hook)
					return nil
				}
				o.Hooks = []inspector.Hook{inspecttest.After("first", look), inspecttest.After("second", look)}
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
				o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second) })
				if want := []string{"first", "second"}; !slices.Equal(seen, want) {
					t.Errorf("when the hooks ran, %q was noted, want %q", seen, want)
				}
				if want := []string{"first", "second", work.HookPowerOff, ""}; !slices.Equal(o.Notes.Hooks, want) {
					t.Errorf("noted: %q, want %q", o.Notes.Hooks, want)
				}
			})
		})
	}
}
