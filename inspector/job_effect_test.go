package inspector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A worker whose session was renewed too long ago holds its breath: when the
// renewal comes it goes on, and nothing fails because a leader was lost.
func TestLateRenewalIsWaitedFor(t *testing.T) {
	inRig(t, func(o *rig) {
		var renewed time.Time
		o.hooks = []Hook{afterHook{"patches", func(ctx context.Context, t *Task) error {
			o.member.leave()
			time.Sleep(8 * time.Second) // in a bubble
			time.AfterFunc(time.Second, func() {
				renewed = time.Now()
				o.member.back()
			})
			return t.PatchNode(ctx)
		}}}
		if rec := o.processed(time.Minute); rec.State != introspection.NodeFinished {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
		for _, at := range o.ironic.when("patch") {
			if at.Before(renewed) || at.After(renewed.Add(2*renewalPoll)) {
				t.Errorf("claim-held: it was patched %v after the renewal", at.Sub(renewed))
			}
		}
	})
}

// A worker whose session is over sends nothing, and what it says is not heard;
// who has the claim now does both.
func TestWorkerWithoutAClaimIsSilent(t *testing.T) {
	for name, end := range map[string]func(o *rig){
		"known at once":   func(o *rig) { o.raftLog.must(membership.EndSession{Session: o.member.ID()}) },
		"its ttl ran out": func(o *rig) { o.member.leave() },
		"known by its peer": func(o *rig) {
			o.member.open("id-h1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.hooks = []Hook{afterHook{"patches", func(ctx context.Context, t *Task) error {
					end(o)
					time.Sleep(15 * time.Second) // in a bubble
					if err := t.PatchNode(ctx); !errors.Is(err, ErrNotAllowed) {
						o.Errorf("patched: %v", err)
					}
					return Failed("says who?")
				}}}
				o.boots(nodeA, macA)
				o.calls(nodeA, macA, "")
				var before introspection.Record
				o.work(func(*WorkerPool) {
					time.Sleep(14 * time.Second) // in a bubble
					before, _ = o.raftLog.truth().Record(nodeA)
					time.Sleep(5 * time.Second) // in a bubble
				})
				if calls := append(o.ironic.sent("patch"), o.ironic.sent(PowerOff)...); len(calls) > 0 {
					t.Errorf("claim-held: %v", calls)
				}
				if after, _ := o.raftLog.truth().Record(nodeA); before.State != after.State && !strings.Contains(after.Error, "déjà vu") {
					t.Errorf("without its claim it moved the node from %v to %v: %s", before.State, after.State, after.Error)
				}
			})
		})
	}
}

// Without news of the session a worker gives up after a while.
func TestRenewalThatNeverComes(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		c := o.workers(o.member)
		j := c.job(claimed(t, o.member, o.calls(nodeA, macA, "")))
		o.raftLog.freeze(true)
		o.member.leave()
		time.Sleep(8 * time.Second) // in a bubble
		began := time.Now()
		if err := j.node.allowed(o.ctx); !errors.Is(err, ErrNotAllowed) || !errors.Is(err, errLate) {
			t.Error(err)
		}
		if took := time.Since(began); took < renewalLimit || took > renewalLimit+renewalPoll {
			t.Errorf("it waited %v", took)
		}
		ctx, cancel := context.WithTimeout(o.ctx, time.Second)
		defer cancel()
		began = time.Now()
		if err := j.node.allowed(ctx); !errors.Is(err, ErrNotAllowed) || time.Since(began) > time.Second+renewalPoll {
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
		{"gone", ErrNoNode, false},
		{"there", nil, true},
		{"away", away(), true},
		{"in doubt", &IronicError{Status: 500, Message: "x"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.boots(nodeA, macA)
				o.raftLog.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
				o.ironic.met("node", c.meets)
				o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
				if _, left := o.raftLog.truth().Record(nodeA); left != c.left || o.raftLog.truth().QueueLength() != 0 {
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
		before func(o *rig)
		off    int
	}{
		{"managed", func(*rig) {}, 1},
		{"deployed", func(o *rig) { takenBy(o, nodeA, "active")() }, 0},
		{"refused", func(o *rig) { o.ironic.met(PowerOff, &IronicError{Status: 500}) }, 0},
		{"unreadable", func(o *rig) { o.ironic.met("node", &IronicError{Status: 500}) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.boots(nodeA, macA)
				if err := o.service().Abort(o.ctx, nodeA); err != nil {
					t.Fatal(err)
				}
				c.before(o)
				o.work(func(*WorkerPool) {
					if rec := o.becomes(nodeA, introspection.NodeError, time.Second); rec.Error != "Canceled by operator" {
						t.Errorf("%q", rec.Error)
					}
				})
				if n := len(o.ironic.sent(PowerOff)); n != c.off {
					t.Errorf("switched off %d times", n)
				}
			})
		})
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("ä", errorMaximum)
	for text, want := range map[string]string{
		"": "failed without a reason", "a\xffb": "a?b", "short": "short",
		long: long[:errorMaximum-4] + "…", "x" + long: "x" + long[:errorMaximum-4] + "…",
	} {
		if got := clip(text); got != want {
			t.Errorf("%d bytes became %d, want %d", len(text), len(got), len(want))
		}
	}
}
