package inspector

import (
	"context"
	"sync"

	"github.com/trivet-ha/trivet/fsm"
)

// Bell wakes those who wait for something to become true in the state. One
// goroutine looks at every change on behalf of all: if each of a thousand
// callbacks did, every commit would wake a thousand goroutines.
type Bell struct {
	log Log

	mu      sync.Mutex
	waiting map[*waiter]struct{}
}

// waiter is somebody waiting.
type waiter struct {
	cond func(fsm.View) bool // must be quick; called by Run and Wait
	done chan fsm.View       // capacity 1
}

// NewBell returns a bell that Run rings.
func NewBell(log Log) *Bell {
	return &Bell{log: log, waiting: make(map[*waiter]struct{})}
}

// Run looks at every change until ctx ends.
func (b *Bell) Run(ctx context.Context) {
	for {
		v, changed := b.log.Changed()
		b.ring(v)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Bell) ring(v fsm.View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.waiting {
		if w.cond(v) {
			w.done <- v
			delete(b.waiting, w)
		}
	}
}

// Wait returns the first view it saw that satisfies cond, or the cause of ctx's
// end. It may be called concurrently.
func (b *Bell) Wait(ctx context.Context, cond func(fsm.View) bool) (fsm.View, error) {
	w := &waiter{cond: cond, done: make(chan fsm.View, 1)}
	b.mu.Lock()
	b.waiting[w] = struct{}{}
	b.mu.Unlock()
	// Only now, so that no change is missed between the look and the waiting.
	if v := b.log.View(); cond(v) {
		b.forget(w)
		return v, nil
	}
	select {
	case v := <-w.done:
		return v, nil
	case <-ctx.Done():
		b.forget(w)
		return fsm.View{}, context.Cause(ctx)
	}
}

func (b *Bell) forget(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, w)
}
