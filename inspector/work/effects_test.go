package work_test

import (
	"context"
	"errors"
	"strings"
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

// A worker whose session was renewed too long ago holds its breath: when the
// renewal comes it goes on, and nothing fails because a leader was lost.
func TestLateRenewalIsWaitedFor(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		var renewed time.Time
		o.Hooks = []inspector.Hook{inspecttest.After("patches", func(ctx context.Context, t *inspector.Task) error {
			o.Member.Leave()
			time.Sleep(8 * time.Second) // in a bubble
			time.AfterFunc(time.Second, func() {
				renewed = time.Now()
				o.Member.Back()
			})
			return t.PatchNode(ctx)
		})}
		if rec := o.Processed(time.Minute); rec.State != introspection.NodeFinished {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
		for _, at := range o.Ironic.When("patch") {
			if at.Before(renewed) || at.After(renewed.Add(2*work.RenewalPoll)) {
				t.Errorf("claim-held: it was patched %v after the renewal", at.Sub(renewed))
			}
		}
	})
}

// A worker whose session is over sends nothing, and what it says is not heard;
// who has the claim now does both.
func TestWorkerWithoutAClaimIsSilent(t *testing.T) {
	for name, end := range map[string]func(o *inspecttest.Rig){
		"known at once":   func(o *inspecttest.Rig) { o.RaftLog.Must(membership.EndSession{Session: o.Member.ID()}) },
		"its ttl ran out": func(o *inspecttest.Rig) { o.Member.Leave() },
		"known by its peer": func(o *inspecttest.Rig) {
			o.Member.Open("id-h1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{inspecttest.After("patches", func(ctx context.Context, t *inspector.Task) error {
					end(o)
					time.Sleep(15 * time.Second) // in a bubble
					if err := t.PatchNode(ctx); !errors.Is(err, ironic.ErrNotAllowed) {
						o.Errorf("patched: %v", err)
					}
					return document.Failed("says who?")
				})}
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
				var before introspection.Record
				o.Work(func(*work.Pool) {
					time.Sleep(14 * time.Second) // in a bubble
					before, _ = o.RaftLog.Truth().Record(inspecttest.NodeA)
					time.Sleep(5 * time.Second) // in a bubble
				})
				if calls := append(o.Ironic.Sent("patch"), o.Ironic.Sent(ironic.PowerOff)...); len(calls) > 0 {
					t.Errorf("claim-held: %v", calls)
				}
				if after, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); before.State != after.State &&
					!strings.Contains(after.Error, "déjà vu") {
					t.Errorf("without its claim it moved the node from %v to %v: %s", before.State, after.State, after.Error)
				}
			})
		})
	}
}

// Without news of the session a worker gives up after a while.
func TestRenewalThatNeverComes(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		c := o.Workers(o.Member)
		allowed := c.Allowed(inspecttest.Claimed(t, o.Member, o.Calls(inspecttest.NodeA, inspecttest.MacA, "")))
		o.RaftLog.Freeze(true)
		o.Member.Leave()
		time.Sleep(8 * time.Second) // in a bubble
		began := time.Now()
		if err := allowed(o.Ctx); !errors.Is(err, ironic.ErrNotAllowed) || !errors.Is(err, work.ErrLate) {
			t.Error(err)
		}
		if took := time.Since(began); took < work.RenewalLimit || took > work.RenewalLimit+work.RenewalPoll {
			t.Errorf("it waited %v", took)
		}
		ctx, cancel := context.WithTimeout(o.Ctx, time.Second)
		defer cancel()
		began = time.Now()
		if err := allowed(ctx); !errors.Is(err, ironic.ErrNotAllowed) || time.Since(began) > time.Second+work.RenewalPoll {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestSynchronisedNodeIsDeletedWhenItIsGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		meets error
		left  bool
	}{
		{"gone", ironic.ErrNoNode, false},
		{"there", nil, true},
		{"away", inspecttest.Away(), true},
		{"in doubt", &ironic.Error{Status: 500, Message: "x"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeA, Event: introspection.EventDelete})
				o.Ironic.Met("node", c.meets)
				o.Work(func(*work.Pool) { time.Sleep(time.Second) }) // in a bubble
				if _, left := o.RaftLog.Truth().Record(inspecttest.NodeA); left != c.left || o.RaftLog.Truth().QueueLength() != 0 {
					t.Errorf("the record is there: %v, want %v", left, c.left)
				}
			})
		})
	}
}

// An abort switches off what Trivet has switched on, and nothing else; that it
// could not is no reason to fail.
func TestAbortSwitchesOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(o *inspecttest.Rig)
		off    int
	}{
		{"managed", func(*inspecttest.Rig) {}, 1},
		{"deployed", func(o *inspecttest.Rig) { inspecttest.TakenBy(o, inspecttest.NodeA, "active")() }, 0},
		{"refused", func(o *inspecttest.Rig) { o.Ironic.Met(ironic.PowerOff, &ironic.Error{Status: 500}) }, 0},
		{"unreadable", func(o *inspecttest.Rig) { o.Ironic.Met("node", &ironic.Error{Status: 500}) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				if err := o.Service().Abort(o.Ctx, inspecttest.NodeA); err != nil {
					t.Fatal(err)
				}
				c.before(o)
				o.Work(func(*work.Pool) {
					if rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second); rec.Error != "Canceled by operator" {
						t.Errorf("%q", rec.Error)
					}
				})
				if n := len(o.Ironic.Sent(ironic.PowerOff)); n != c.off {
					t.Errorf("switched off %d times", n)
				}
			})
		})
	}
}
