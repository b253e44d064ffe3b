package accept_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

func TestCallback(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Hooks = []inspector.Hook{
			inspecttest.Before("b", func(_ context.Context, d *document.Document) error {
				return d.Set("macs", []string{inspecttest.MacA})
			}),
			inspecttest.After("a", func(ctx context.Context, t *inspector.Task) error {
				t.Data.Delete("spare")
				return t.PatchNode(ctx)
			}),
		}
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) {
			body := inspecttest.Callback(strings.ToUpper(inspecttest.MacA), `, "z":1,"logs":"H4sI","spare":[]`)
			node, err := s.Continue(o.Ctx, []byte(body))
			if err != nil || node != inspecttest.NodeA {
				t.Fatalf("%q, %v", node, err)
			}
			o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
			for range 2 { // a repeat, with other white space
				if node, err := s.Continue(o.Ctx, []byte(" "+body+"\n")); err != nil || node != inspecttest.NodeA {
					t.Errorf("repeated: %q, %v", node, err)
				}
			}
			_, err = s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, "")))
			inspecttest.RefusedWith(t, "another one, too late", err, 400,
				inspector.FailuresHead+"Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['"+
					inspecttest.MacA+"']}")
		})
		if n := len(o.Ironic.Sent("patch")); n != 1 {
			t.Errorf("the node was patched %d times", n)
		}
		for processed, want := range map[bool]string{
			false: inspecttest.Callback(strings.ToUpper(inspecttest.MacA), `,"z":1,"spare":[]`),
			true:  inspecttest.Callback(strings.ToUpper(inspecttest.MacA), `,"z":1,"macs":["`+inspecttest.MacA+`"]`),
		} {
			if data, err := s.Data(o.Ctx, "name-1", processed, inspector.Linearizable); err != nil || string(data) != want {
				t.Errorf("processed %v: %s, %v, want %s", processed, data, err, want)
			}
		}
	})
}

// A machine that was enrolled again under another UUID sends the bytes that its
// former node delivered. They belong to the introspection that waits; a repeat
// after its end gets its answer, and not the former node's.
func TestSameBytesOfAnotherNode(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Work(func(*work.Pool) {
			for _, enrolled := range []string{inspecttest.NodeB, inspecttest.NodeA} { // in either order of names
				o.Boots(enrolled, inspecttest.MacA)
				for _, sent := range []string{"first", "repeated"} {
					if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil ||
						node != enrolled {
						t.Fatalf("%s: answered for %q, %v, want node %s", sent, node, err, enrolled)
					}
					o.Becomes(enrolled, introspection.NodeFinished, time.Second)
				}
			}
			o.Boots(inspecttest.NodeB, inspecttest.MacB) // waits for other bytes
			if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil ||
				node != inspecttest.NodeA {
				t.Errorf("repeated while another node waits: answered for %q, %v, want node %s", node, err, inspecttest.NodeA)
			}
		})
	})
}

// A node was deleted in Ironic and its machine enrolled again. Once the present
// node's introspection is aborted the same bytes are nobody's, as on a fresh
// cluster; the former node's answer is none. While Ironic is away they are a
// repeat.
func TestSameBytesOfADeletedNode(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Work(func(*work.Pool) {
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			if _, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil {
				t.Fatal(err)
			}
			o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
			o.Ironic.Mu.Lock()
			delete(o.Ironic.Nodes, inspecttest.NodeA)
			o.Ironic.Mu.Unlock()
			o.Ironic.Met("node "+inspecttest.NodeA, inspecttest.Away())
			if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil ||
				node != inspecttest.NodeA {
				t.Errorf("same-answer: while Ironic is away: %q, %v", node, err)
			}
			o.Ironic.Answers()
			o.Boots(inspecttest.NodeB, inspecttest.MacA)
			if err := s.Abort(o.Ctx, inspecttest.NodeB); err != nil {
				t.Fatal(err)
			}
			o.Becomes(inspecttest.NodeB, introspection.NodeError, time.Second)
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, "")))
			inspecttest.RefusedWith(t, "former-node", err, 400,
				inspector.FailuresHead+"Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['"+
					inspecttest.MacA+"']}")
		})
	})
}

// Several active nodes match: the original's refusal, but for a document that
// one of them has already.
func TestSameBytesOfSeveralNodes(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		processing := make(chan struct{})
		o.Hooks = []inspector.Hook{
			inspecttest.After("slow", func(context.Context, *inspector.Task) error { <-processing; return nil })}
		o.Work(func(*work.Pool) {
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			first := o.Post(s, inspecttest.Callback(inspecttest.MacA, ""))
			o.Becomes(inspecttest.NodeA, introspection.NodeProcessing, time.Second)
			o.Boots(inspecttest.NodeB, inspecttest.MacA)
			repeated := o.Post(s, inspecttest.Callback(inspecttest.MacA, ""))
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, `,"other":1`)))
			inspecttest.RefusedWith(t, "other bytes", err, 400,
				inspector.FailuresHead+
					"Look up error: Multiple nodes match the same number of attributes {'bmc_address': [], 'mac': ['"+inspecttest.MacA+
					"']}: ['"+inspecttest.NodeA+"', '"+inspecttest.NodeB+"']")
			close(processing)
			for name, answer := range map[string]<-chan error{"first": first, "repeated": repeated} {
				if err := <-answer; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	})
}

func TestData(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		_, err := o.Service().Data(o.Ctx, inspecttest.NodeA, true, inspector.Linearizable)
		inspecttest.RefusedWith(t, "not yet", err, 404,
			"Introspection data not found for node "+inspecttest.NodeA+", processed=True")
		_, err = o.Service().Data(o.Ctx, inspecttest.NodeB, false, inspector.Stale)
		inspecttest.RefusedWith(t, "never", err, 404,
			"Introspection data not found for node "+inspecttest.NodeB+", processed=False")
		o.Conf.StoreData = false
		_, err = o.Service().Data(o.Ctx, inspecttest.NodeA, true, inspector.Linearizable)
		inspecttest.RefusedWith(t, "no store", err, 404,
			"Inspector is not configured to store data. Set the [processing]store_data configuration option to change this.")
		o.Work(func(*work.Pool) {
			if _, err := o.Service().Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil {
				t.Error(err)
			}
			o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
		})
		if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); !rec.Unprocessed.IsZero() || !rec.Processed.IsZero() {
			t.Errorf("stored all the same: %+v", rec)
		}
	})
}

func TestCallbackIsRefused(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"{", "Invalid data: the body is not valid JSON: it ends too early"},
		{"[]", "Invalid data: expected a JSON object, got list"},
		{"{}", inspector.FailuresHead + "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': []}"},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			_, err := o.Service().Continue(o.Ctx, []byte(c.body))
			inspecttest.RefusedWith(t, c.body, err, 400, c.want)
		})
	}
}

// A callback waits for a bounded time; its repeat joins it and gets its answer.
func TestCallbackThatTakesLong(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Hooks = []inspector.Hook{inspecttest.After("slow", func(ctx context.Context, _ *inspector.Task) error {
			time.Sleep(40 * time.Second) // in a bubble
			return document.Failed("no disk")
		})}
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) {
			began := time.Now()
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, "")))
			inspecttest.RefusedWith(t, "first", err, 503,
				"The callback of node "+inspecttest.NodeA+" was accepted and is not processed yet; repeat it")
			if took := time.Since(began); took > accept.AnswerLimit+time.Second {
				t.Errorf("it took %v", took)
			}
			_, err = s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, "")))
			inspecttest.RefusedWith(t, "second", err, 400, "no disk")
		})
	})
}

// A second, different callback waits for the first to end (docs/contract.md#callback). What it
// is told then depends on how that was.
func TestOvertakenCallbacks(t *testing.T) {
	const other = `,"second":1`
	for _, c := range []struct {
		name string
		// ends the introspection while both callbacks are queued
		end  func(o *inspecttest.Rig)
		want string
	}{
		{"first finishes", func(o *inspecttest.Rig) {}, "Node processing already finished with error: None"},
		{"first fails", func(o *inspecttest.Rig) {
			o.Hooks = []inspector.Hook{
				inspecttest.Before("b", func(context.Context, *document.Document) error { return document.Failed("bad") })}
		},
			"Node processing already finished with error: " + inspector.FailuresHead + "Preprocessing hook b: bad"},
		{"aborted", func(o *inspecttest.Rig) {
			if err := o.Service().Abort(o.Ctx, inspecttest.NodeA); err != nil {
				o.Error(err)
			}
			o.Ironic.On(func(context.Context, string) error { // so that both are answered while it aborts
				time.Sleep(time.Minute) // in a bubble
				return nil
			})
		}, "Node processing already finished with error: Canceled by operator"},
		{"started again", func(o *inspecttest.Rig) { o.Accept(inspecttest.NodeA, inspecttest.MacA) },
			"The introspection of node " + inspecttest.NodeA + " was started again meanwhile"},
		{"deleted", func(o *inspecttest.Rig) {
			o.RaftLog.Must(introspection.DeleteNode{Node: inspecttest.NodeA,
				Claim: o.Claims(introspection.Queued{Request: o.RaftLog.Truth().QueueOf(inspecttest.NodeA)[0].Sequence}).Hold()})
		}, inspector.FailuresHead + "Look up error: Could not find node " + inspecttest.NodeA + " in cache"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				s := o.Service()
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				first := o.Post(s, inspecttest.Callback(inspecttest.MacA, ""))
				time.Sleep(time.Second) // in a bubble
				second := o.Post(s, inspecttest.Callback(inspecttest.MacA, other))
				time.Sleep(time.Second) // in a bubble
				c.end(o)
				o.Work(func(*work.Pool) {
					inspecttest.RefusedWith(t, c.name, <-second, 400, c.want)
					<-first
				})
			})
		})
	}
}

// The same callback, posted many times at once, is applied once, and all are
// answered alike.
func TestSameCallbackManyTimes(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Hooks = []inspector.Hook{
			inspecttest.After("a", func(ctx context.Context, t *inspector.Task) error { return t.PatchNode(ctx) })}
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		var posts sync.WaitGroup
		o.Work(func(*work.Pool) {
			for range 20 {
				posts.Go(func() {
					if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil ||
						node != inspecttest.NodeA {
						t.Errorf("%q, %v", node, err)
					}
				})
			}
			posts.Wait()
		})
		if calls := o.Ironic.Sent("patch"); len(calls) != 1 {
			t.Errorf("applied-once: %v", calls)
		}
	})
}

// A document that does not fit into the log is the caller's mistake.
func TestCallbackTooLarge(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		noise := make([]byte, 3<<20)
		for i, x := 0, uint32(1); i < len(noise); i++ {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			noise[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[x>>26]
		}
		var more strings.Builder
		for i := 0; i < len(noise); i += 1 << 19 { // longer strings are refused before
			fmt.Fprintf(&more, `,"noise%d":%q`, i, noise[i:min(i+1<<19, len(noise))])
		}
		_, err := o.Service().Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, more.String())))
		if r, ok := err.(*inspector.Refusal); !ok || r.Status != 413 {
			t.Errorf("%v", err)
		}
	})
}
