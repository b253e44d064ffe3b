package inspector

import (
	"context"
	"sync"

	"github.com/trivet-ha/trivet/fsm"
)

// Notifier wakes those who wait for something to become true in the state. One
// goroutine looks at every change on behalf of all: if each of a thousand
// callbacks did, every commit would wake a thousand goroutines.
type Notifier struct {
	log Log

	mu      sync.Mutex
	waiting map[*waiter]struct{}
}

// waiter is one waiting caller.
type waiter struct {
	cond func(fsm.View) bool // must be quick; called by Run and Wait
	done chan fsm.View       // capacity 1
}

// NewNotifier returns a notifier; Run feeds it.
func NewNotifier(log Log) *Notifier {
	return &Notifier{log: log, waiting: make(map[*waiter]struct{})}
}

// Run looks at every change until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	for {
		v, changed := n.log.Changed()
		n.notify(v)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (n *Notifier) notify(v fsm.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.waiting {
		if w.cond(v) {
			w.done <- v
			delete(n.waiting, w)
		}
	}
}

// Wait returns the first view it saw that satisfies cond, or the cause of ctx's
// end. It may be called concurrently.
func (n *Notifier) Wait(ctx context.Context, cond func(fsm.View) bool) (fsm.View, error) {
	w := &waiter{cond: cond, done: make(chan fsm.View, 1)}
	n.mu.Lock()
	n.waiting[w] = struct{}{}
	n.mu.Unlock()
	// Only now, so that no change is missed between the look and the waiting.
	if v := n.log.View(); cond(v) {
		n.forget(w)
		return v, nil
	}
	select {
	case v := <-w.done:
		return v, nil
	case <-ctx.Done():
		n.forget(w)
		return fsm.View{}, context.Cause(ctx)
	}
}

func (n *Notifier) forget(w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, w)
}
