package inspector

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// memory is what a host remembers.
type memory struct {
	carefree
	suspect string // the hook at which every document ended a process; "": none did
}

func (m *memory) At(fsm.Hash, string) {}

func (m *memory) Suspect(fsm.Hash) (string, bool) { return m.suspect, m.suspect != "" }

// remembering lets a crew take callbacks while f runs.
func (o *office) remembering(m *memory, f func(s *Service)) {
	c, stop, done := o.crew(o.seat), make(chan struct{}), make(chan struct{})
	c.o.Memory = m
	s := o.service()
	s.o.Taker = c
	go func() { defer close(done); c.Run(o.ctx, stop) }()
	f(s)
	close(stop)
	<-done
}

func TestACallbackIsBegunWhereItComesIn(t *testing.T) {
	inOffice(t, func(o *office) {
		o.remembering(&memory{}, func(s *Service) {
			o.accept(nodeA, macA)
			o.becomes(nodeA, fsm.NodeWaiting, time.Second)
			claims := o.book.count(isClaim)
			if node, err := s.Continue(o.ctx, []byte(callback(macA, ""))); node != nodeA || err != nil {
				t.Fatalf("%s, %v", node, err)
			}
			o.becomes(nodeA, fsm.NodeFinished, time.Second)
			if n := o.book.count(isClaim) - claims; n != 0 {
				t.Errorf("%d claims besides", n)
			}
			if rec, _ := o.book.truth().Record(nodeA); rec.Unprocessed.IsZero() || rec.Processed.IsZero() || rec.Delivered.Answer.Status != 200 {
				t.Errorf("record: %+v", rec)
			}
		})
	})
}

// A document that ended a process here is queued, and declined by this peer.
func TestASuspectIsLeftToOthers(t *testing.T) {
	inOffice(t, func(o *office) {
		o.remembering(&memory{carefree: carefree{suspects: true}, suspect: "poison"}, func(s *Service) {
			o.accept(nodeA, macA)
			o.becomes(nodeA, fsm.NodeWaiting, time.Second)
			if _, err := s.Continue(o.ctx, []byte(callback(macA, ""))); err == nil {
				t.Error("a suspect was processed")
			}
			if n := o.book.count(func(c fsm.Command) bool { return c.Kind() == fsm.KindDecline }); n != 1 {
				t.Errorf("declined %d times", n)
			}
			o.becomes(nodeA, fsm.NodeError, time.Second) // no other peer is left
		})
	})
}
