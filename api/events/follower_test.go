package events_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// slowLog is a ledger that lets a follower wait with what it has read.
type slowLog struct {
	*ledger
	hold chan chan struct{} // of one place: what the next reading waits for, after it has read
}

// Changed implements events.Log.
func (l *slowLog) Changed() (fsm.View, <-chan struct{}) {
	view, changed := l.ledger.Changed()
	select {
	case goOn := <-l.hold:
		<-goOn // in a bubble
	default:
	}
	return view, changed
}

// A follower that the last reader has ended keeps nothing: while nobody reads, a hub
// holds no events.
func TestDeadFollowerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{newLedger(t), make(chan chan struct{}, 1)}
		h := events.NewHub(l)
		defer h.Close()
		r := open(t, h, events.FromNow, events.Filter{})
		synctest.Wait()
		goOn := make(chan struct{})
		l.hold <- goOn // in a bubble
		l.report(eventring.TopicFilter, "Read by a follower that ends.")
		synctest.Wait()
		r.Close()
		close(goOn)
		synctest.Wait()
		if n, _ := h.Held(); n != 0 {
			t.Errorf("dead-follower: %d events are held for nobody", n)
		}
	})
}

// A follower that was ended hands nothing to the readers of the next one: what they
// have stays as it is, and they see each later event once.
func TestDeadFollowerHandsNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		l.report(eventring.TopicFilter, "Old.")
		old := l.view()
		l.report(eventring.TopicFilter, "Newer.")
		r := open(t, h, events.FromNow, events.Filter{})
		defer r.Close()
		synctest.Wait()
		_, before := h.Held()
		h.HandLate(old)
		if n, through := h.Held(); n != 0 || through != before {
			t.Errorf("dead-follower: it left %d events, up to %v; before, %v was handed out", n, through, before)
		}
		l.report(eventring.TopicFilter, "New.")
		wantTexts(t, "after a dead follower", next(t, r, time.Minute), "New.")
	})
}
