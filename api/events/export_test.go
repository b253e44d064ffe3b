package events

import (
	"context"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// HandLate hands out a view as a follower does that was ended after it had looked
// where to go on from, and before it had the lock.
func (h *Hub) HandLate(view fsm.View) {
	ended, end := context.WithCancel(context.Background())
	end()
	h.hand(ended, view)
}

// Held returns how many rendered events are kept, and up to where.
func (h *Hub) Held() (n int, through eventring.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.recent), h.through
}
