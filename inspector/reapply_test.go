package inspector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/ruleset"
)

// ends brings node A to finished by a callback with more members.
func (o *rig) ends(s *Service, more string) {
	o.Helper()
	o.awaits(nodeA, macA)
	if _, err := s.Continue(o.ctx, []byte(callback(macA, more))); err != nil {
		o.Fatal(err)
	}
	o.becomes(nodeA, introspection.NodeFinished, time.Second)
}

// reapplies asks for it and waits for the end.
func (o *rig) reapplies(s *Service, body string, want introspection.NodeState) introspection.Record {
	o.Helper()
	time.Sleep(time.Second) // in a bubble
	asked := o.raftLog.truth().Now()
	if err := s.Reapply(o.ctx, "name-1", []byte(body)); err != nil {
		o.Fatal(err)
	}
	v, err := o.notifier.Wait(o.ctx, func(v fsm.View) bool {
		rec, _ := v.Record(nodeA)
		return !rec.State.Active() && rec.Finished >= asked
	})
	if err != nil {
		o.Fatal(err)
	}
	rec, _ := v.Record(nodeA)
	if rec.State != want {
		o.Errorf("it ended in %v: %s", rec.State, rec.Error)
	}
	return rec
}

// shows compares the stored documents.
func (o *rig) shows(s *Service, unprocessed, processed string) {
	o.Helper()
	for which, want := range map[bool]string{false: unprocessed, true: processed} {
		if data, err := s.Data(o.ctx, nodeA, which, Linearizable); err != nil || string(data) != want {
			o.Errorf("processed %v: %s, %v, want %s", which, data, err, want)
		}
	}
}

// What is stored, or what the request brings, is processed as a callback is, and
// nobody's power is touched.
func TestReapply(t *testing.T) {
	inRig(t, func(o *rig) {
		s, runs := o.service(), 0
		o.hooks = []Hook{
			beforeHook{"b", func(_ context.Context, d *Document) error {
				if d.Has("bad") {
					return Failed("bad")
				}
				return nil
			}},
			afterHook{"a", func(ctx context.Context, t *Task) error {
				runs++
				t.Data.Delete("spare")
				if err := t.Data.Set("runs", runs); err != nil {
					return err
				}
				return t.PatchNode(ctx)
			}},
		}
		o.work(func(*WorkerPool) {
			o.ends(s, `,"z":1,"spare":2`)
			switched := len(o.ironic.sent(PowerOff))
			before, _ := o.raftLog.truth().Record(nodeA)
			takenBy(o, nodeA, "active")() // whoever has the node by now
			for _, body := range []string{"", "{}", ` { "logs" : "eA==" } `} {
				rec := o.reapplies(s, body, introspection.NodeFinished)
				if rec.StartedMillis <= before.StartedMillis || rec.FinishedMillis <= before.FinishedMillis {
					t.Errorf("%q: started and finished %d, %d", body, rec.StartedMillis, rec.FinishedMillis)
				}
			}
			o.shows(s, callback(macA, `,"z":1,"spare":2`), callback(macA, `,"z":1,"runs":4`))
			rec := o.reapplies(s, `{"y":1.50,"bad":true,"logs":"eA=="}`, introspection.NodeError)
			if want := reapplyHead + "Preprocessing hook b: bad"; rec.Error != want {
				t.Errorf("error %q, want %q", rec.Error, want)
			}
			o.shows(s, `{"y":1.50,"bad":true}`, callback(macA, `,"z":1,"runs":4`)) // the last that succeeded
			o.reapplies(s, `{"y": 1.50, "spare":[]}`, introspection.NodeFinished)
			o.shows(s, `{"y":1.50,"spare":[]}`, `{"y":1.50,"runs":5}`)
			if n := len(o.ironic.sent(PowerOff)); n != switched {
				t.Errorf("it was switched off %d times", n-switched)
			}
		})
	})
}

// What does not succeed after the pre-processing is told in its own words.
func TestReapplyFails(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		var why error
		o.hooks = []Hook{afterHook{"a", func(context.Context, *Task) error { return why }}}
		o.work(func(*WorkerPool) {
			o.ends(s, "")
			for _, why = range []error{Failed("no disk"), &IronicError{Status: 500, Message: "said Ironic"}} {
				if rec := o.reapplies(s, "", introspection.NodeError); rec.Error != why.Error() || rec.Delivered.Answer.Status != 200 {
					t.Errorf("%q, and the callback was answered %+v", rec.Error, rec.Delivered.Answer)
				}
			}
		})
	})
}

func TestReapplyIsRefused(t *testing.T) {
	const unknown = "99999999-9999-4999-8999-999999999999"
	const head = "Invalid data: expected a JSON object, got "
	off := func(o *rig) { o.conf.StoreData = false }
	const noStore = "Inspector is not configured to store introspection data. Set the [processing]store_data configuration option to change this."
	locked := func(o *rig) { o.accept(nodeA, macA) }
	for _, c := range []struct {
		name, ref, body string
		before          func(o *rig)
		status          int
		message         string
	}{
		{"a list", nodeA, "[]", nil, 400, head + "list"},
		{"text", nodeA, `"x"`, nil, 400, head + "str"},
		{"null", nodeA, `null`, nil, 400, head + "NoneType"},
		{"no JSON", nodeA, `{"a":`, nil, 400, head + "None"},
		{"not UTF-8", nodeA, "{\"a\":\"\xff\"}", nil, 400, head + "None"},
		{"unknown node, before the store is read", "nobody", "", off, 404, "Node nobody was not found in Ironic"},
		{"no store", nodeA, "", off, 400, noStore},
		{"no store, nothing brought", nodeA, "{}", off, 400, noStore},
		{"no store, unknown", unknown, "{}", off, 400, noStore},
		{"nothing stored", nodeA, "{}", nil, 404, "Introspection data not found for node " + nodeA + ", processed=False"},
		{"unknown, nothing stored", unknown, "", nil, 404, "Introspection data not found for node " + unknown + ", processed=False"},
		{"unknown", strings.ToUpper(unknown), `{"a":1}`, nil, 404, "Could not find node " + unknown + " in cache"},
		{"busy", nodeA, `{"a":1}`, locked, 409, "Node locked, please, try again later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				if c.before != nil {
					c.before(o)
				}
				refusedWith(t, c.name, o.service().Reapply(o.ctx, c.ref, []byte(c.body)), c.status, c.message)
			})
		})
	}
}

// While a ramdisk is waited for, a reapply is accepted and nothing comes of it.
func TestReapplyWhileWaiting(t *testing.T) {
	inRig(t, func(o *rig) {
		o.awaits(nodeA, macA)
		before, _ := o.raftLog.truth().Record(nodeA)
		if err := o.service().Reapply(o.ctx, nodeA, []byte(`{"a":1}`)); err != nil {
			t.Error(err)
		}
		if after, _ := o.raftLog.truth().Record(nodeA); fmt.Sprint(after) != fmt.Sprint(before) || o.raftLog.truth().QueueLength() != 0 {
			t.Errorf("%+v became %+v", before, after)
		}
	})
}

// A worker that is lost amid a reapply leaves it to the next, which begins anew;
// one whose data ends every process is given up.
func TestReapplyIsMetAgain(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.hooks = []Hook{afterHook{"a", func(ctx context.Context, t *Task) error { return t.PatchNode(ctx) }}}
		o.work(func(*WorkerPool) { o.ends(s, "") })
		if err := s.Reapply(o.ctx, nodeA, []byte(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		other := o.raftLog.newSession("h2")
		q := o.raftLog.truth().QueueOf(nodeA)[0]
		claim := claimed(t, other, introspection.Queued{Request: q.Sequence}).Claim
		o.raftLog.must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventReapply, Unprocessed: q.Document})
		o.raftLog.must(membership.EndSession{Session: other.ID()})
		other.open("id-h2") // it lives again
		rec := o.reappliedHere()
		if rec.State != introspection.NodeFinished || rec.Unprocessed != q.Document {
			t.Errorf("%+v", rec)
		}
		if err := s.Reapply(o.ctx, nodeA, nil); err != nil {
			t.Fatal(err)
		}
		o.claims(introspection.Queued{Request: o.raftLog.truth().QueueOf(nodeA)[0].Sequence})
		other.leave()
		o.raftLog.must(membership.EndSession{Session: other.ID()})
		o.raftLog.must(membership.EndSession{Session: o.member.ID()})
		o.member.open("id-h1")
		if rec := o.reappliedHere(); rec.State != introspection.NodeError || !strings.HasPrefix(rec.Error, "given up: every peer that processed the data was lost (h1)") {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
	})
}

// reappliedHere lets this peer work until node A has ended.
func (o *rig) reappliedHere() (rec introspection.Record) {
	o.Helper()
	o.work(func(*WorkerPool) {
		v, err := o.notifier.Wait(o.ctx, func(v fsm.View) bool { rec, _ := v.Record(nodeA); return !rec.State.Active() })
		if err != nil {
			o.Fatal(err)
		}
		rec, _ = v.Record(nodeA)
	})
	return rec
}

// Rules come after what the data became is settled, and what they fail with ends
// the introspection; they run for stored data, too.
func TestRulesComeLast(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		var fails error
		o.hooks = []Hook{afterHook{"a", func(_ context.Context, t *Task) error { return t.Data.Set("hook", 1) }}}
		o.rules = ruleFunc(func(_ context.Context, v fsm.View, task *Task) error {
			if rec, _ := v.Record(nodeA); !rec.State.Active() || task.Data.Value("hook") == nil {
				t.Errorf("in %v: %s", rec.State, task.Data.Value("hook").Raw())
			}
			if err := task.Data.Set("rule", 1); err != nil {
				return err
			}
			return fails
		})
		o.raftLog.must(ruleset.Create{UUID: nodeB, Body: []byte("{}")})
		o.work(func(*WorkerPool) {
			o.ends(s, "")
			o.shows(s, callback(macA, ""), callback(macA, `,"hook":1`))
			fails = Failed("the rule says no")
			if rec := o.reapplies(s, `{"b":1}`, introspection.NodeError); rec.Error != "the rule says no" {
				t.Errorf("%q", rec.Error)
			}
			o.shows(s, `{"b":1}`, `{"b":1,"hook":1}`)
			o.awaits(nodeA, macA)
			_, err := s.Continue(o.ctx, []byte(callback(macA, `,"c":1`)))
			refusedWith(t, "a rule that fails", err, 400, "the rule says no")
			o.shows(s, callback(macA, `,"c":1`), callback(macA, `,"c":1,"hook":1`))
		})
	})
}

type ruleFunc func(context.Context, fsm.View, *Task) error

func (f ruleFunc) Apply(ctx context.Context, v fsm.View, t *Task) error { return f(ctx, v, t) }

// What a worker of an older peer would claim and not do is refused, to be asked
// again, while such a peer is a member.
func TestReapplyWaitsForTheLastUpgrade(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.work(func(*WorkerPool) {
			o.ends(s, "")
			m := o.raftLog.truth().Members()[0]
			known := m.Version
			m.Version = 1
			o.raftLog.must(membership.PutMember{Member: m})
			err := s.Reapply(o.ctx, "name-1", nil)
			var r *Refusal
			if !errors.As(err, &r) || r.Status != http.StatusServiceUnavailable || !strings.Contains(r.Message, "upgrade trivet") {
				o.Errorf("older-workers-are-asked: %v, want 503 with who is to be upgraded", err)
			}
			m.Version = known
			o.raftLog.must(membership.PutMember{Member: m})
			o.reapplies(s, "", introspection.NodeFinished)
		})
	})
}
