package work_test

import (
	"context"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

func TestACallbackIsBegunWhereItComesIn(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Remembering(&inspecttest.Memory{}, func(_ *work.Pool, s *inspecttest.Service) {
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second)
			claims := o.RaftLog.Count(inspecttest.IsClaim)
			if node, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); node != inspecttest.NodeA ||
				err != nil {
				t.Fatalf("%s, %v", node, err)
			}
			o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
			if n := o.RaftLog.Count(inspecttest.IsClaim) - claims; n != 0 {
				t.Errorf("%d claims besides", n)
			}
			if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.Unprocessed.IsZero() || rec.Processed.IsZero() ||
				rec.Delivered.Answer.Status != 200 {
				t.Errorf("record: %+v", rec)
			}
		})
	})
}

// A callback waits a moment for a busy worker, and is queued if that is too short.
func TestACallbackWaitsForAWorker(t *testing.T) {
	for _, step := range []struct {
		busy    time.Duration
		claimed int
	}{{work.TurnWait / 2, 0}, {work.TurnWait * 2, 1}} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Remembering(&inspecttest.Memory{}, func(c *work.Pool, s *inspecttest.Service) {
				o.Accept(inspecttest.NodeA, inspecttest.MacA)
				o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second)
				claims := o.RaftLog.Count(inspecttest.IsClaim)
				time.AfterFunc(step.busy, c.Occupy())
				if _, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err != nil {
					t.Fatal(err)
				}
				o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
				if n := o.RaftLog.Count(inspecttest.IsClaim) - claims; n != step.claimed {
					t.Errorf("a worker free after %v: %d claims, want %d", step.busy, n, step.claimed)
				}
			})
		})
	}
}

// A document that ended a process here is queued, and declined by this peer.
func TestASuspectIsLeftToOthers(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Remembering(&inspecttest.Memory{Carefree: inspecttest.Carefree{Suspects: true}, Hook: "poison"},
			func(c *work.Pool, s *inspecttest.Service) {
				o.Accept(inspecttest.NodeA, inspecttest.MacA)
				o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second)
				if _, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, ""))); err == nil {
					t.Error("a suspect was processed")
				}
				if n := o.RaftLog.Count(func(c fsm.Command) bool {
					return fsm.KindOf(c) == fsm.KindOf(introspection.Decline{})
				}); n != 1 {
					t.Errorf("declined %d times", n)
				}
				o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second) // no other peer is left
			})
	})
}

// A peer that is stopped while it examines a callback, until its session may be
// over, reads nothing from Ironic when it goes on.
func TestExaminationEndsWithTheSession(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Hooks = []inspector.Hook{inspecttest.Before("b", func(context.Context, *document.Document) error {
			if len(o.Ironic.Sent("")) == 0 {
				o.Member.Leave()
				time.Sleep(membership.SessionTTL - 2*time.Second) // in a bubble
			}
			return nil
		})}
		o.Remembering(&inspecttest.Memory{}, func(c *work.Pool, s *inspecttest.Service) {
			o.Awaits(inspecttest.NodeA, inspecttest.MacA)
			time.Sleep(time.Second) // in a bubble: until workers take callbacks
			answered := o.Post(s, inspecttest.Callback(inspecttest.MacA, ""))
			time.Sleep(membership.SessionTTL + 20*time.Second) // in a bubble
			if calls := o.Ironic.Sent(""); len(calls) != 0 {
				t.Errorf("silent-after-session: sent %v", calls)
			}
			o.Member.Open("id-h1")
			<-answered // whatever it is: the data is in the queue
		})
	})
}
