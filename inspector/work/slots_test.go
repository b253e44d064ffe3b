package work

import (
	"testing"
)

// The queue has its turn while callbacks wait, and no more wait than there are
// workers.
func TestTheQueueHasItsTurn(t *testing.T) {
	c := &slots{size: 8, busy: 8, open: true, freed: make(chan struct{}, 1)}
	for n := range c.size + 1 {
		e := &waitingTask{run: func() { <-t.Context().Done() }, started: make(chan struct{})}
		if ok := c.enqueue(e); ok != (n < c.size) {
			t.Errorf("number %d waits: %t", n, ok)
		}
	}
	for range maxAdmitted + 1 {
		c.release()
	}
	if c.resize(c.size) != 1 || len(c.waiting) != c.size-maxAdmitted {
		t.Errorf("free %d, waiting %d", c.resize(c.size), len(c.waiting))
	}
	if c.admitWaiting(); c.resize(c.size) != 0 { // the queue wants nobody
		t.Errorf("free %d", c.resize(c.size))
	}
}
