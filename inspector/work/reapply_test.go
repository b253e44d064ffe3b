package work_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/membership"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// What is stored, or what the request brings, is processed as a callback is, and
// nobody's power is touched.
func TestReapply(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s, runs := o.Service(), 0
		o.Hooks = []inspector.Hook{
			inspecttest.Before("b", func(_ context.Context, d *document.Document) error {
				if d.Has("bad") {
					return document.Failed("bad")
				}
				return nil
			}),
			inspecttest.After("a", func(ctx context.Context, t *inspector.Task) error {
				runs++
				t.Data.Delete("spare")
				if err := t.Data.Set("runs", runs); err != nil {
					return err
				}
				return t.PatchNode(ctx)
			}),
		}
		o.Work(func(*work.Pool) {
			o.Ends(s, `,"z":1,"spare":2`)
			switched := len(o.Ironic.Sent(ironic.PowerOff))
			before, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
			inspecttest.TakenBy(o, inspecttest.NodeA, "active")() // whoever has the node by now
			for _, body := range []string{"", "{}", ` { "logs" : "eA==" } `} {
				rec := o.Reapplies(s, body, introspection.NodeFinished)
				if rec.StartedMillis <= before.StartedMillis || rec.FinishedMillis <= before.FinishedMillis {
					t.Errorf("%q: started and finished %d, %d", body, rec.StartedMillis, rec.FinishedMillis)
				}
			}
			o.Shows(s, inspecttest.Callback(inspecttest.MacA, `,"z":1,"spare":2`),
				inspecttest.Callback(inspecttest.MacA, `,"z":1,"runs":4`))
			rec := o.Reapplies(s, `{"y":1.50,"bad":true,"logs":"eA=="}`, introspection.NodeError)
			if want := work.ReapplyHead + "Preprocessing hook b: bad"; rec.Error != want {
				t.Errorf("error %q, want %q", rec.Error, want)
			}
			// the last that succeeded
			o.Shows(s, `{"y":1.50,"bad":true}`, inspecttest.Callback(inspecttest.MacA, `,"z":1,"runs":4`))
			o.Reapplies(s, `{"y": 1.50, "spare":[]}`, introspection.NodeFinished)
			o.Shows(s, `{"y":1.50,"spare":[]}`, `{"y":1.50,"runs":5}`)
			if n := len(o.Ironic.Sent(ironic.PowerOff)); n != switched {
				t.Errorf("it was switched off %d times", n-switched)
			}
		})
	})
}

// What does not succeed after the pre-processing is told in its own words.
func TestReapplyFails(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		var why error
		o.Hooks = []inspector.Hook{inspecttest.After("a", func(context.Context, *inspector.Task) error { return why })}
		o.Work(func(*work.Pool) {
			o.Ends(s, "")
			for _, why = range []error{document.Failed("no disk"), &ironic.Error{Status: 500, Message: "said Ironic"}} {
				if rec := o.Reapplies(s, "", introspection.NodeError); rec.Error != why.Error() ||
					rec.Delivered.Answer.Status != 200 {
					t.Errorf("%q, and the callback was answered %+v", rec.Error, rec.Delivered.Answer)
				}
			}
		})
	})
}

func TestReapplyIsRefused(t *testing.T) {
	const unknown = "99999999-9999-4999-8999-999999999999"
	const head = "Invalid data: expected a JSON object, got "
	off := func(o *inspecttest.Rig) { o.Conf.StoreData = false }
	const noStore = "Inspector is not configured to store introspection data. Set the [processing]store_data configuration option to change this."
	locked := func(o *inspecttest.Rig) { o.Accept(inspecttest.NodeA, inspecttest.MacA) }
	for _, c := range []struct {
		name, ref, body string
		before          func(o *inspecttest.Rig)
		status          int
		message         string
	}{
		{"a list", inspecttest.NodeA, "[]", nil, 400, head + "list"},
		{"text", inspecttest.NodeA, `"x"`, nil, 400, head + "str"},
		{"null", inspecttest.NodeA, `null`, nil, 400, head + "NoneType"},
		{"no JSON", inspecttest.NodeA, `{"a":`, nil, 400, head + "None"},
		{"not UTF-8", inspecttest.NodeA, "{\"a\":\"\xff\"}", nil, 400, head + "None"},
		{"unknown node, before the store is read", "nobody", "", off, 404, "Node nobody was not found in Ironic"},
		{"no store", inspecttest.NodeA, "", off, 400, noStore},
		{"no store, nothing brought", inspecttest.NodeA, "{}", off, 400, noStore},
		{"no store, unknown", unknown, "{}", off, 400, noStore},
		{"nothing stored", inspecttest.NodeA, "{}", nil, 404,
			"Introspection data not found for node " + inspecttest.NodeA + ", processed=False"},
		{"unknown, nothing stored", unknown, "", nil, 404,
			"Introspection data not found for node " + unknown + ", processed=False"},
		{"unknown", strings.ToUpper(unknown), `{"a":1}`, nil, 404, "Could not find node " + unknown + " in cache"},
		{"busy", inspecttest.NodeA, `{"a":1}`, locked, 409, "Node locked, please, try again later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				if c.before != nil {
					c.before(o)
				}
				inspecttest.RefusedWith(t, c.name, o.Service().Reapply(o.Ctx, c.ref, []byte(c.body)), c.status, c.message)
			})
		})
	}
}

// While a ramdisk is waited for, a reapply is accepted and nothing comes of it.
func TestReapplyWhileWaiting(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Awaits(inspecttest.NodeA, inspecttest.MacA)
		before, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
		if err := o.Service().Reapply(o.Ctx, inspecttest.NodeA, []byte(`{"a":1}`)); err != nil {
			t.Error(err)
		}
		if after, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); fmt.Sprint(after) != fmt.Sprint(before) ||
			o.RaftLog.Truth().QueueLength() != 0 {
			t.Errorf("%+v became %+v", before, after)
		}
	})
}

// A worker that is lost amid a reapply leaves it to the next, which begins anew;
// one whose data ends every process is given up.
func TestReapplyIsMetAgain(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Hooks = []inspector.Hook{
			inspecttest.After("a", func(ctx context.Context, t *inspector.Task) error { return t.PatchNode(ctx) })}
		o.Work(func(*work.Pool) { o.Ends(s, "") })
		if err := s.Reapply(o.Ctx, inspecttest.NodeA, []byte(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		other := o.RaftLog.NewSession("h2")
		q := o.RaftLog.Truth().QueueOf(inspecttest.NodeA)[0]
		claim := inspecttest.Claimed(t, other, introspection.Queued{Request: q.Sequence}).Claim
		o.RaftLog.Must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventReapply, Unprocessed: q.Document})
		o.RaftLog.Must(membership.EndSession{Session: other.ID()})
		other.Open("id-h2") // it lives again
		rec := o.ReappliedHere()
		if rec.State != introspection.NodeFinished || rec.Unprocessed != q.Document {
			t.Errorf("%+v", rec)
		}
		if err := s.Reapply(o.Ctx, inspecttest.NodeA, nil); err != nil {
			t.Fatal(err)
		}
		o.Claims(introspection.Queued{Request: o.RaftLog.Truth().QueueOf(inspecttest.NodeA)[0].Sequence})
		other.Leave()
		o.RaftLog.Must(membership.EndSession{Session: other.ID()})
		o.RaftLog.Must(membership.EndSession{Session: o.Member.ID()})
		o.Member.Open("id-h1")
		if rec := o.ReappliedHere(); rec.State != introspection.NodeError ||
			!strings.HasPrefix(rec.Error, "given up: every peer that processed the data was lost (h1)") {
			t.Errorf("%v: %s", rec.State, rec.Error)
		}
	})
}

// Rules come after what the data became is settled, and what they fail with ends
// the introspection; they run for stored data, too.
func TestRulesComeLast(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		var fails error
		o.Hooks = []inspector.Hook{
			inspecttest.After("a", func(_ context.Context, t *inspector.Task) error { return t.Data.Set("hook", 1) })}
		o.Rules = ruleFunc(func(_ context.Context, v fsm.View, task *inspector.Task) error {
			if rec, _ := v.Record(inspecttest.NodeA); !rec.State.Active() || task.Data.Value("hook") == nil {
				t.Errorf("in %v: %s", rec.State, task.Data.Value("hook").Raw())
			}
			if err := task.Data.Set("rule", 1); err != nil {
				return err
			}
			return fails
		})
		o.RaftLog.Must(ruleset.Create{UUID: inspecttest.NodeB, Body: []byte("{}")})
		o.Work(func(*work.Pool) {
			o.Ends(s, "")
			o.Shows(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.Callback(inspecttest.MacA, `,"hook":1`))
			fails = document.Failed("the rule says no")
			if rec := o.Reapplies(s, `{"b":1}`, introspection.NodeError); rec.Error != "the rule says no" {
				t.Errorf("%q", rec.Error)
			}
			o.Shows(s, `{"b":1}`, `{"b":1,"hook":1}`)
			o.Awaits(inspecttest.NodeA, inspecttest.MacA)
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, `,"c":1`)))
			inspecttest.RefusedWith(t, "a rule that fails", err, 400, "the rule says no")
			o.Shows(s, inspecttest.Callback(inspecttest.MacA, `,"c":1`),
				inspecttest.Callback(inspecttest.MacA, `,"c":1,"hook":1`))
		})
	})
}

// A second reapply is refused while the first waits for a worker, so that no document is lost
// that was accepted.
func TestNoReapplyIsLost(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Work(func(*work.Pool) { o.Ends(s, "") })
		if err := s.Reapply(o.Ctx, inspecttest.NodeA, []byte(`{"a":"wrong"}`)); err != nil {
			t.Fatal(err)
		}
		err := s.Reapply(o.Ctx, inspecttest.NodeA, []byte(`{"a":"right"}`))
		inspecttest.RefusedWith(t, "reapply-lost: a second one", err, http.StatusConflict,
			"Node locked, please, try again later")
		o.ReappliedHere()
		o.Shows(s, `{"a":"wrong"}`, `{"a":"wrong"}`)
		o.Work(func(*work.Pool) { o.Reapplies(s, `{"a":"right"}`, introspection.NodeFinished) })
		o.Shows(s, `{"a":"right"}`, `{"a":"right"}`)
	})
}

type ruleFunc func(context.Context, fsm.View, *inspector.Task) error

func (f ruleFunc) Apply(ctx context.Context, v fsm.View, t *inspector.Task) error {
	return f(ctx, v, t)
}

// What a worker of an older peer would claim and not do is refused, to be asked
// again, while such a peer is a member.
func TestReapplyWaitsForTheLastUpgrade(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Work(func(*work.Pool) {
			o.Ends(s, "")
			m := o.RaftLog.Truth().Members()[0]
			known := m.Version
			m.Version = 1
			o.RaftLog.Must(membership.PutMember{Member: m})
			err := s.Reapply(o.Ctx, "name-1", nil)
			var r *inspector.Refusal
			if !errors.As(err, &r) || r.Status != http.StatusServiceUnavailable ||
				!strings.Contains(r.Message, "upgrade trivet") {
				o.Errorf("older-workers-are-asked: %v, want 503 with who is to be upgraded", err)
			}
			m.Version = known
			o.RaftLog.Must(membership.PutMember{Member: m})
			o.Reapplies(s, "", introspection.NodeFinished)
		})
	})
}
