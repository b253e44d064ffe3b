package events

import (
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/eventring"
)

// What it costs to look at an event of the ring, and to render one, at the least.
const (
	lookCost   = 200 * time.Nanosecond
	renderCost = 10 * time.Microsecond
)

// maxOlder bounds the frames of events that are kept for readers who catch up, in bytes.
const maxOlder = 8 << 20

// older keeps events as they were rendered for readers who catch up. After a change of
// leader all readers do, and they read in turn: what one has rendered the others read next.
// It may be used concurrently.
type older struct {
	mu    sync.Mutex
	of    map[eventring.ID]*Rendered
	order []*Rendered // the first is forgotten first
	bytes int
}

// get returns an event as it is rendered, and what that cost.
func (o *older) get(e eventring.Stored) (*Rendered, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.of[e.ID()]; r != nil {
		return r, 0
	}
	r := render(e) // under the lock: others want the same event
	if o.of == nil {
		o.of = make(map[eventring.ID]*Rendered)
	}
	o.of[r.ID] = r
	o.order = append(o.order, r)
	for o.bytes += len(r.Frame); o.bytes > maxOlder; o.order = o.order[1:] {
		o.bytes -= len(o.order[0].Frame)
		delete(o.of, o.order[0].ID)
	}
	return r, renderCost
}

func (o *older) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of, o.order, o.bytes = nil, nil, 0
}
