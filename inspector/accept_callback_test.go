package inspector

import (
	"context"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// memory is what a host remembers.
type memory struct {
	carefree
	suspect string // the hook at which every document ended a process; "": none did
}

func (m *memory) At(blobs.Hash, string) {}

func (m *memory) Suspect(blobs.Hash) (string, bool) { return m.suspect, m.suspect != "" }

// remembering lets a pool take callbacks while f runs.
func (o *rig) remembering(m *memory, f func(s *Service)) {
	c, stop, done := o.workers(o.member), make(chan struct{}), make(chan struct{})
	c.o.Memory = m
	s := o.service()
	s.o.Taker = c
	go func() { defer close(done); c.Run(o.ctx, stop) }()
	f(s)
	close(stop)
	<-done
}

func TestACallbackIsBegunWhereItComesIn(t *testing.T) {
	inRig(t, func(o *rig) {
		o.remembering(&memory{}, func(s *Service) {
			o.accept(nodeA, macA)
			o.becomes(nodeA, introspection.NodeWaiting, time.Second)
			claims := o.raftLog.count(isClaim)
			if node, err := s.Continue(o.ctx, []byte(callback(macA, ""))); node != nodeA || err != nil {
				t.Fatalf("%s, %v", node, err)
			}
			o.becomes(nodeA, introspection.NodeFinished, time.Second)
			if n := o.raftLog.count(isClaim) - claims; n != 0 {
				t.Errorf("%d claims besides", n)
			}
			if rec, _ := o.raftLog.truth().Record(nodeA); rec.Unprocessed.IsZero() || rec.Processed.IsZero() || rec.Delivered.Answer.Status != 200 {
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
	}{{turnWait / 2, 0}, {turnWait * 2, 1}} {
		inRig(t, func(o *rig) {
			o.remembering(&memory{}, func(s *Service) {
				o.accept(nodeA, macA)
				o.becomes(nodeA, introspection.NodeWaiting, time.Second)
				c, claims := s.o.Taker.(*WorkerPool), o.raftLog.count(isClaim)
				for range c.size {
					c.acquire()
				}
				time.AfterFunc(step.busy, func() {
					for range c.size {
						c.release()
					}
				})
				if _, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err != nil {
					t.Fatal(err)
				}
				o.becomes(nodeA, introspection.NodeFinished, time.Second)
				if n := o.raftLog.count(isClaim) - claims; n != step.claimed {
					t.Errorf("a worker free after %v: %d claims, want %d", step.busy, n, step.claimed)
				}
			})
		})
	}
}

// The queue has its turn while callbacks wait, and no more wait than there are
// workers.
func TestTheQueueHasItsTurn(t *testing.T) {
	c := &WorkerPool{size: 8, busy: 8, open: true, freed: make(chan struct{}, 1)}
	for n := range c.size + 1 {
		e := &waitingTask{run: func() { <-t.Context().Done() }, started: make(chan struct{})}
		if ok := c.enqueue(e); ok != (n < c.size) {
			t.Errorf("number %d waits: %t", n, ok)
		}
	}
	for range maxAdmitted + 1 {
		c.release()
	}
	if c.free() != 1 || len(c.waiting) != c.size-maxAdmitted {
		t.Errorf("free %d, waiting %d", c.free(), len(c.waiting))
	}
	if c.admitWaiting(); c.free() != 0 { // the queue wants nobody
		t.Errorf("free %d", c.free())
	}
}

// A document that ended a process here is queued, and declined by this peer.
func TestASuspectIsLeftToOthers(t *testing.T) {
	inRig(t, func(o *rig) {
		o.remembering(&memory{carefree: carefree{suspects: true}, suspect: "poison"}, func(s *Service) {
			o.accept(nodeA, macA)
			o.becomes(nodeA, introspection.NodeWaiting, time.Second)
			if _, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err == nil {
				t.Error("a suspect was processed")
			}
			if n := o.raftLog.count(func(c fsm.Command) bool { return fsm.KindOf(c) == fsm.KindOf(introspection.Decline{}) }); n != 1 {
				t.Errorf("declined %d times", n)
			}
			o.becomes(nodeA, introspection.NodeError, time.Second) // no other peer is left
		})
	})
}

// A peer that is stopped while it examines a callback, until its session may be
// over, reads nothing from Ironic when it goes on.
func TestExaminationEndsWithTheSession(t *testing.T) {
	inRig(t, func(o *rig) {
		o.hooks = []Hook{beforeHook{"b", func(context.Context, *Document) error {
			if len(o.ironic.sent("")) == 0 {
				o.member.leave()
				time.Sleep(membership.SessionTTL - 2*time.Second) // in a bubble
			}
			return nil
		}}}
		o.remembering(&memory{}, func(s *Service) {
			o.awaits(nodeA, macA)
			time.Sleep(time.Second) // in a bubble: until workers take callbacks
			answered := o.post(s, callback(macA, ""))
			time.Sleep(membership.SessionTTL + 20*time.Second) // in a bubble
			if calls := o.ironic.sent(""); len(calls) != 0 {
				t.Errorf("silent-after-session: sent %v", calls)
			}
			o.member.open("id-h1")
			<-answered // whatever it is: the data is in the queue
		})
	})
}
