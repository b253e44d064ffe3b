package inspector

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

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// processed posts a callback of node A to this peer alone and returns how its
// introspection ended.
func (o *rig) processed(limit time.Duration) (rec introspection.Record) {
	o.Helper()
	o.boots(nodeA, macA)
	o.calls(nodeA, macA, "")
	o.work(func(*WorkerPool) {
		ctx, cancel := context.WithTimeout(o.ctx, limit)
		defer cancel()
		v, err := o.notifier.Wait(ctx, func(v fsm.View) bool {
			rec, _ := v.Record(nodeA)
			return !rec.State.Active()
		})
		if err != nil {
			o.Fatalf("it has not ended within %v", limit)
		}
		rec, _ = v.Record(nodeA)
	})
	return rec
}

func patches(ctx context.Context, t *Task) error { return t.PatchNode(ctx) }

// The answer is given before the machine of the ramdisk is switched off.
func TestAnswerBeforePowerOff(t *testing.T) {
	inRig(t, func(o *rig) {
		o.slowly(PowerOff, time.Second, func() {
			rec, _ := o.raftLog.truth().Record(nodeA)
			if rec.State != introspection.NodeProcessing || rec.Delivered.Answer.Status != 200 || rec.Processed.IsZero() {
				t.Errorf("switched off in %v, answered %+v", rec.State, rec.Delivered.Answer)
			}
		})
		if rec := o.processed(time.Minute); rec.State != introspection.NodeFinished || rec.Error != "" {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
		if calls := fmt.Sprint(o.ironic.sent("")); calls != fmt.Sprint([]string{"node " + nodeA, PowerOff + " " + nodeA}) {
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
			inRig(t, func(o *rig) {
				o.hooks = []Hook{afterHook{"slow", func(context.Context, *Task) error {
					time.Sleep(5 * time.Second) // in a bubble
					takenBy(o, nodeA, c.state)()
					return nil
				}}}
				if c.hooks == 2 {
					o.hooks = append(o.hooks, afterHook{"patches", patches})
				}
				rec := o.processed(time.Minute)
				if !strings.HasPrefix(rec.Error, c.want) || (c.want == "") != (rec.State == introspection.NodeFinished) {
					t.Errorf("%v: %q", rec.State, rec.Error)
				}
				if calls := append(o.ironic.sent(PowerOff), o.ironic.sent("patch")...); len(calls) > 0 {
					t.Errorf("somebody else's node: %v", calls)
				}
			})
		})
	}
}

// A node that was patched a moment ago was read with it.
func TestPatchIsAReading(t *testing.T) {
	inRig(t, func(o *rig) {
		slow := func(ctx context.Context, t *Task) error {
			time.Sleep(5 * time.Second) // in a bubble
			return t.PatchNode(ctx)
		}
		o.hooks = []Hook{afterHook{"one", slow}, afterHook{"two", slow}}
		if rec := o.processed(time.Minute); rec.State != introspection.NodeFinished {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
		if n := len(o.ironic.sent("node")); n != 1 {
			t.Errorf("the node was read %d times besides", n)
		}
	})
}

// Between two hooks the time may run out.
func TestProcessingThatTakesTooLong(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Timeout = time.Minute
		o.hooks = []Hook{
			afterHook{"slow", func(context.Context, *Task) error {
				time.Sleep(2 * time.Minute) // in a bubble
				return nil
			}},
			afterHook{"patches", patches},
		}
		if rec := o.processed(5 * time.Minute); rec.Error != textTimeout || len(o.ironic.sent("patch")) > 0 {
			t.Errorf("%q, %v", rec.Error, o.ironic.sent("patch"))
		}
	})
}

func TestHooksFail(t *testing.T) {
	problem := Failed("no %s", "disk")
	said := &IronicError{Status: 500, Message: "said Ironic"}
	for _, c := range []struct {
		name   string
		hook   Hook
		status int
		want   string
	}{
		{"problem before", beforeHook{"h", func(context.Context, *Document) error { return problem }}, 400, failuresHead + "Preprocessing hook h: no disk"},
		{"error before", beforeHook{"h", func(context.Context, *Document) error { return fmt.Errorf("x: %w", said) }}, 400,
			failuresHead + "Unexpected exception IronicError during preprocessing in hook h: x: said Ironic"},
		{"panic before", beforeHook{"h", func(context.Context, *Document) error { panic("boom") }}, 400,
			failuresHead + "Unexpected exception panic during preprocessing in hook h: boom"},
		{"endless before", beforeHook{"h", func(context.Context, *Document) error { time.Sleep(6 * time.Minute); return nil }}, 400, // in a bubble
			failuresHead + "Unexpected exception TimeoutError during preprocessing in hook h: hook h did not end within 5m0s"},
		{"problem", afterHook{"h", func(context.Context, *Task) error { return fmt.Errorf("x: %w", problem) }}, 400, "no disk"},
		{"error", afterHook{"h", func(context.Context, *Task) error { return said }}, 500, "Unexpected exception IronicError during processing: said Ironic"},
		{"other error", afterHook{"h", func(context.Context, *Task) error { return errors.New("x") }}, 500, "Unexpected exception errors.errorString during processing: x"},
		{"panic", afterHook{"h", func(context.Context, *Task) error { panic("boom") }}, 500, "Unexpected exception panic during processing: boom"},
		{"endless", afterHook{"h", func(context.Context, *Task) error { time.Sleep(6 * time.Minute); return nil }}, 500, // in a bubble
			"Unexpected exception TimeoutError during processing: hook h did not end within 5m0s"},
		{"own context", afterHook{"h", func(context.Context, *Task) error { return context.Canceled }}, 500,
			"Unexpected exception errors.errorString during processing: context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.conf.StoreData = true
				o.hooks = []Hook{c.hook}
				rec := o.processed(10 * time.Minute)
				if rec.State != introspection.NodeError || rec.Error != c.want || rec.Delivered.Answer != (introspection.Answer{Status: c.status, Message: c.want}) {
					t.Errorf("%v: %q, answered %+v", rec.State, rec.Error, rec.Delivered.Answer)
				}
				if rec.Unprocessed.IsZero() {
					t.Error("the data that failed is not kept")
				}
				if calls := o.ironic.sent(PowerOff); len(calls) > 0 {
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
	says := func(name string) Hook {
		return beforeHook{name, func(_ context.Context, d *Document) error {
			return errors.Join(d.Set(name, 1), Failed("%s", name))
		}}
	}
	inRig(t, func(o *rig) {
		o.hooks = []Hook{says("a"), afterHook{"x", patches}, says("b")}
		want := failuresHead + "Preprocessing hook a: a\nPreprocessing hook b: b"
		if rec := o.processed(time.Minute); rec.Error != want {
			t.Errorf("%q", rec.Error)
		}
	})
	inRig(t, func(o *rig) {
		o.limit = time.Second
		endless := beforeHook{"e", func(ctx context.Context, d *Document) error {
			for n := 0; ctx.Err() == nil || !testing.Short() && n < 2000; n++ {
				if err := d.Set(fmt.Sprint(n), 1); err != nil {
					return err
				}
				time.Sleep(time.Millisecond) // in a bubble
			}
			return nil
		}}
		o.hooks = []Hook{says("a"), endless, says("b")}
		want := failuresHead + "Preprocessing hook a: a\nUnexpected exception TimeoutError during preprocessing in hook e: hook e did not end within 1s"
		if rec := o.processed(time.Minute); rec.Error != want {
			t.Errorf("%q", rec.Error)
		}
		time.Sleep(time.Minute) // in a bubble
	})
}

// Ironic that cannot be reached when a callback begins: another peer does it.
func TestCallbackIsGivenBack(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		q := o.calls(nodeA, macA, "")
		o.ironic.met("", away())
		o.work(func(*WorkerPool) {
			time.Sleep(time.Second) // in a bubble
			if r, _ := o.raftLog.truth().QueuedRequest(q.Request); r.Attempts != 0 || !r.Claim.IsZero() {
				t.Errorf("given-back: %+v", r)
			}
		})
		o.ironic.met("node", &IronicError{Status: 500, Message: "said Ironic"})
		o.health = NewIronicHealth(o.ironic, o.log)
		o.work(func(*WorkerPool) {
			rec := o.becomes(nodeA, introspection.NodeError, time.Second)
			if rec.Delivered.Answer != (introspection.Answer{Status: 500, Message: "Failed to read the node from Ironic: said Ironic"}) {
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
		time.Hour:   "Failed to power off node " + nodeA + ", check its power management configuration: connection refused",
	} {
		inRig(t, func(o *rig) {
			o.conf.Workers = 1
			o.hooks = []Hook{afterHook{"h", func(context.Context, *Task) error {
				o.ironic.met("", away())
				return nil
			}}}
			time.AfterFunc(back, o.ironic.answers)
			ctx, cancel := context.WithCancel(o.ctx)
			go o.health.Run(ctx)
			defer cancel()
			time.AfterFunc(30*time.Second, func() {
				o.raftLog.must(introspection.Start{Node: nodeB, Event: introspection.EventEnroll, Timeout: time.Second})
			})
			time.AfterFunc(40*time.Second, func() { o.raftLog.must(introspection.Enqueue{Node: nodeB, Event: introspection.EventTimeout}) })
			rec := o.processed(2 * time.Hour)
			if rec.Error != want || rec.Delivered.Answer.Status != 200 {
				t.Errorf("back after %v: %q, answered %+v", back, rec.Error, rec.Delivered.Answer)
			}
			if b, _ := o.raftLog.truth().Record(nodeB); b.State != introspection.NodeError || b.Finished >= rec.Finished {
				t.Errorf("the worker was not free: %v ended at %v, the other at %v", b.State, b.Finished, rec.Finished)
			}
		})
	}
}

// A gateway answers for Ironic at one thing and Ironic at all else: what was begun
// is tried a few times and ends in error. Where that cannot be judged, because
// Ironic comes and goes, it ends with the introspection's time.
func TestGatewayFailsAtOneThing(t *testing.T) {
	const want = "Failed to power off node " + nodeA + ", check its power management configuration: bad gateway"
	var asked atomic.Int32
	for _, c := range []struct {
		name  string
		limit time.Duration                  // until it ends
		tries int                            // of the power-off, at most
		away  func(after time.Duration) bool // what a question meets
	}{
		{"Ironic answers", 5 * time.Second, 10, func(time.Duration) bool { return false }},
		{"Ironic was away", 15 * time.Second, 40, func(after time.Duration) bool { return after > time.Second/4 && after < 3*time.Second }},
		{"Ironic comes and goes", 16 * time.Minute, 8000, func(time.Duration) bool { return asked.Add(1)%2 == 0 }},
	} {
		inRig(t, func(o *rig) {
			ctx, cancel := context.WithCancel(o.ctx)
			go o.health.Run(ctx)
			defer cancel()
			began, tries := time.Now(), 0
			o.ironic.on(func(_ context.Context, call string) error {
				switch {
				case call == "ping" && c.away(time.Since(began)):
					return away()
				case strings.HasPrefix(call, PowerOff) && time.Since(began) < 90*time.Minute:
					tries++
					time.Sleep(20 * time.Millisecond) // in a bubble
					return &IronicError{Status: http.StatusBadGateway, Message: "bad gateway"}
				default:
					return nil
				}
			})
			rec := o.processed(2 * time.Hour)
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
		"manageable": "Failed to power off node " + nodeA + ", check its power management configuration: said Ironic", "enroll": "",
	} {
		inRig(t, func(o *rig) {
			o.ironic.met(PowerOff, &IronicError{Status: 500, Message: "said Ironic"})
			takenBy(o, nodeA, state)()
			if rec := o.processed(time.Minute); rec.Error != want || rec.Delivered.Answer.Status != 200 {
				t.Errorf("%s: %q, %+v", state, rec.Error, rec.Delivered.Answer)
			}
		})
	}
}

// A request met again after its processing had begun ends in error: déjà vu.
func TestDejaVu(t *testing.T) {
	inRig(t, func(o *rig) {
		o.hooks = []Hook{afterHook{"patches", patches}}
		o.boots(nodeA, macA)
		claim := o.claims(o.calls(nodeA, macA, ""))
		o.raftLog.must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventProcess, Hook: "patches"})
		o.raftLog.must(membership.EndSession{Session: o.member.ID()})
		o.member.open("id-h1")
		o.work(func(*WorkerPool) {
			rec := o.becomes(nodeA, introspection.NodeError, time.Second)
			if !strings.Contains(rec.Error, "déjà vu") || !strings.Contains(rec.Error, "h1") || !strings.Contains(rec.Error, "patches") {
				t.Errorf("%q", rec.Error)
			}
		})
		if calls := o.ironic.sent(""); len(calls) > 0 {
			t.Errorf("applied-once: %v", calls)
		}
	})
}

// A document that was met by every living peer, and lost by each, is given up
// by the name of the hook and of the peers, which no operator knows by their IDs.
func TestGivenUp(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		q := o.calls(nodeA, macA, "")
		claim := o.claims(q)
		o.raftLog.must(introspection.Mark{Claim: claim.Hold(), Hook: "poison"})
		o.raftLog.must(membership.EndSession{Session: o.member.ID()})
		o.member.open("id-h1")
		o.work(func(*WorkerPool) {
			rec := o.becomes(nodeA, introspection.NodeError, time.Second)
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
			inRig(t, func(o *rig) {
				o.notes.err = broken
				var seen []string
				look := func(context.Context, *Task) error {
					if broken == nil {
						seen = append(seen, o.notes.last())
						return nil
					}
					claim, _ := o.raftLog.View().ClaimOf(nodeA)
					request, _ := o.raftLog.View().QueuedRequest(claim.Request)
					seen = append(seen, request.Hook)
					return nil
				}
				o.hooks = []Hook{afterHook{"first", look}, afterHook{"second", look}}
				o.boots(nodeA, macA)
				o.calls(nodeA, macA, "")
				o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeFinished, time.Second) })
				if want := []string{"first", "second"}; !slices.Equal(seen, want) {
					t.Errorf("when the hooks ran, %q was noted, want %q", seen, want)
				}
				if want := []string{"first", "second", hookPowerOff, ""}; !slices.Equal(o.notes.hooks, want) {
					t.Errorf("noted: %q, want %q", o.notes.hooks, want)
				}
			})
		})
	}
}
