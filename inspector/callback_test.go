package inspector

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// post delivers a document in a goroutine of its own.
func (o *rig) post(s *Service, body string) <-chan error {
	answered := make(chan error, 1)
	go func() {
		_, err := s.Continue(o.ctx, []byte(body))
		answered <- err
	}()
	return answered
}

func TestCallback(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.hooks = []Hook{
			beforeHook{"b", func(_ context.Context, d *Document) error { return d.Set("macs", []string{macA}) }},
			afterHook{"a", func(ctx context.Context, t *Task) error {
				t.Data.Delete("spare")
				return t.PatchNode(ctx)
			}},
		}
		o.boots(nodeA, macA)
		o.work(func(*WorkerPool) {
			body := callback(strings.ToUpper(macA), `, "z":1,"logs":"H4sI","spare":[]`)
			node, err := s.Continue(o.ctx, []byte(body))
			if err != nil || node != nodeA {
				t.Fatalf("%q, %v", node, err)
			}
			o.becomes(nodeA, introspection.NodeFinished, time.Second)
			for range 2 { // a repeat, with other white space
				if node, err := s.Continue(o.ctx, []byte(" "+body+"\n")); err != nil || node != nodeA {
					t.Errorf("repeated: %q, %v", node, err)
				}
			}
			_, err = s.Continue(o.ctx, []byte(callback(macA, "")))
			refusedWith(t, "another one, too late", err, 400, failuresHead+"Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['"+macA+"']}")
		})
		if n := len(o.ironic.sent("patch")); n != 1 {
			t.Errorf("the node was patched %d times", n)
		}
		for processed, want := range map[bool]string{
			false: callback(strings.ToUpper(macA), `,"z":1,"spare":[]`),
			true:  callback(strings.ToUpper(macA), `,"z":1,"macs":["`+macA+`"]`),
		} {
			if data, err := s.Data(o.ctx, "name-1", processed, Linearizable); err != nil || string(data) != want {
				t.Errorf("processed %v: %s, %v, want %s", processed, data, err, want)
			}
		}
	})
}

// A machine that was enrolled again under another UUID sends the bytes that its
// former node delivered. They belong to the introspection that waits; a repeat
// after its end gets its answer, and not the former node's.
func TestSameBytesOfAnotherNode(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.work(func(*WorkerPool) {
			for _, enrolled := range []string{nodeB, nodeA} { // in either order of names
				o.boots(enrolled, macA)
				for _, sent := range []string{"first", "repeated"} {
					if node, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err != nil || node != enrolled {
						t.Fatalf("%s: answered for %q, %v, want node %s", sent, node, err, enrolled)
					}
					o.becomes(enrolled, introspection.NodeFinished, time.Second)
				}
			}
			o.boots(nodeB, macB) // waits for other bytes
			if node, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err != nil || node != nodeA {
				t.Errorf("repeated while another node waits: answered for %q, %v, want node %s", node, err, nodeA)
			}
		})
	})
}

// A node was deleted in Ironic and its machine enrolled again. Once the present
// node's introspection is aborted the same bytes are nobody's, as on a fresh
// cluster; the former node's answer is none. While Ironic is away they are a
// repeat.
func TestSameBytesOfADeletedNode(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.work(func(*WorkerPool) {
			o.boots(nodeA, macA)
			if _, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err != nil {
				t.Fatal(err)
			}
			o.becomes(nodeA, introspection.NodeFinished, time.Second)
			o.ironic.mu.Lock()
			delete(o.ironic.nodes, nodeA)
			o.ironic.mu.Unlock()
			o.ironic.met("node "+nodeA, away())
			if node, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err != nil || node != nodeA {
				t.Errorf("same-answer: while Ironic is away: %q, %v", node, err)
			}
			o.ironic.answers()
			o.boots(nodeB, macA)
			if err := s.Abort(o.ctx, nodeB); err != nil {
				t.Fatal(err)
			}
			o.becomes(nodeB, introspection.NodeError, time.Second)
			_, err := s.Continue(o.ctx, []byte(callback(macA, "")))
			refusedWith(t, "former-node", err, 400, failuresHead+"Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['"+macA+"']}")
		})
	})
}

// Several active nodes match: the original's refusal, but for a document that
// one of them has already.
func TestSameBytesOfSeveralNodes(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		processing := make(chan struct{})
		o.hooks = []Hook{afterHook{"slow", func(context.Context, *Task) error { <-processing; return nil }}}
		o.work(func(*WorkerPool) {
			o.boots(nodeA, macA)
			first := o.post(s, callback(macA, ""))
			o.becomes(nodeA, introspection.NodeProcessing, time.Second)
			o.boots(nodeB, macA)
			repeated := o.post(s, callback(macA, ""))
			_, err := s.Continue(o.ctx, []byte(callback(macA, `,"other":1`)))
			refusedWith(t, "other bytes", err, 400, failuresHead+"Look up error: Multiple nodes match the same number of attributes {'bmc_address': [], 'mac': ['"+macA+"']}: ['"+nodeA+"', '"+nodeB+"']")
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
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		_, err := o.service().Data(o.ctx, nodeA, true, Linearizable)
		refusedWith(t, "not yet", err, 404, "Introspection data not found for node "+nodeA+", processed=True")
		_, err = o.service().Data(o.ctx, nodeB, false, Stale)
		refusedWith(t, "never", err, 404, "Introspection data not found for node "+nodeB+", processed=False")
		o.conf.StoreData = false
		_, err = o.service().Data(o.ctx, nodeA, true, Linearizable)
		refusedWith(t, "no store", err, 404, "Inspector is not configured to store data. Set the [processing]store_data configuration option to change this.")
		o.work(func(*WorkerPool) {
			if _, err := o.service().Continue(o.ctx, []byte(callback(macA, ""))); err != nil {
				t.Error(err)
			}
			o.becomes(nodeA, introspection.NodeFinished, time.Second)
		})
		if rec, _ := o.raftLog.truth().Record(nodeA); !rec.Unprocessed.IsZero() || !rec.Processed.IsZero() {
			t.Errorf("stored all the same: %+v", rec)
		}
	})
}

func TestCallbackIsRefused(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"{", "Invalid data: the body is not valid JSON: it ends too early"},
		{"[]", "Invalid data: expected a JSON object, got list"},
		{"{}", failuresHead + "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': []}"},
	} {
		inRig(t, func(o *rig) {
			_, err := o.service().Continue(o.ctx, []byte(c.body))
			refusedWith(t, c.body, err, 400, c.want)
		})
	}
}

// A callback waits for a bounded time; its repeat joins it and gets its answer.
func TestCallbackThatTakesLong(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.hooks = []Hook{afterHook{"slow", func(ctx context.Context, _ *Task) error {
			time.Sleep(40 * time.Second) // in a bubble
			return Failed("no disk")
		}}}
		o.boots(nodeA, macA)
		o.work(func(*WorkerPool) {
			began := time.Now()
			_, err := s.Continue(o.ctx, []byte(callback(macA, "")))
			refusedWith(t, "first", err, 503, "The callback of node "+nodeA+" was accepted and is not processed yet; repeat it")
			if took := time.Since(began); took > answerLimit+time.Second {
				t.Errorf("it took %v", took)
			}
			_, err = s.Continue(o.ctx, []byte(callback(macA, "")))
			refusedWith(t, "second", err, 400, "no disk")
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
		end  func(o *rig)
		want string
	}{
		{"first finishes", func(o *rig) {}, "Node processing already finished with error: None"},
		{"first fails", func(o *rig) {
			o.hooks = []Hook{beforeHook{"b", func(context.Context, *Document) error { return Failed("bad") }}}
		},
			"Node processing already finished with error: " + failuresHead + "Preprocessing hook b: bad"},
		{"aborted", func(o *rig) {
			if err := o.service().Abort(o.ctx, nodeA); err != nil {
				o.Error(err)
			}
			o.ironic.on(func(context.Context, string) error { // so that both are answered while it aborts
				time.Sleep(time.Minute) // in a bubble
				return nil
			})
		}, "Node processing already finished with error: Canceled by operator"},
		{"started again", func(o *rig) { o.accept(nodeA, macA) }, "The introspection of node " + nodeA + " was started again meanwhile"},
		{"deleted", func(o *rig) {
			o.raftLog.must(introspection.DeleteNode{Node: nodeA, Claim: o.claims(introspection.Queued{Request: o.raftLog.truth().QueueOf(nodeA)[0].Sequence}).Hold()})
		}, failuresHead + "Look up error: Could not find node " + nodeA + " in cache"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				s := o.service()
				o.boots(nodeA, macA)
				first := o.post(s, callback(macA, ""))
				time.Sleep(time.Second) // in a bubble
				second := o.post(s, callback(macA, other))
				time.Sleep(time.Second) // in a bubble
				c.end(o)
				o.work(func(*WorkerPool) {
					refusedWith(t, c.name, <-second, 400, c.want)
					<-first
				})
			})
		})
	}
}

// The same callback, posted many times at once, is applied once, and all are
// answered alike.
func TestSameCallbackManyTimes(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.hooks = []Hook{afterHook{"a", func(ctx context.Context, t *Task) error { return t.PatchNode(ctx) }}}
		o.boots(nodeA, macA)
		var posts sync.WaitGroup
		o.work(func(*WorkerPool) {
			for range 20 {
				posts.Go(func() {
					if node, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err != nil || node != nodeA {
						t.Errorf("%q, %v", node, err)
					}
				})
			}
			posts.Wait()
		})
		if calls := o.ironic.sent("patch"); len(calls) != 1 {
			t.Errorf("applied-once: %v", calls)
		}
	})
}

// A document that does not fit into the log is the caller's mistake.
func TestCallbackTooLarge(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
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
		_, err := o.service().Continue(o.ctx, []byte(callback(macA, more.String())))
		if r, ok := err.(*Refusal); !ok || r.Status != 413 {
			t.Errorf("%v", err)
		}
	})
}
