package cluster

import (
	"fmt"
	"io"
	"sync"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// maxOutstanding bounds the requests of one peer that wait for their answer.
const maxOutstanding = 16384

// requests mints the IDs of one session in rising order and knows the lowest
// that still waits: results below it may be forgotten.
type requests struct {
	mu      sync.Mutex
	random  io.Reader
	last    fsm.RequestID
	waiting map[fsm.RequestID]struct{}
	order   []fsm.RequestID // of minting; the head is pruned as requests end
}

func newRequests(random io.Reader) requests {
	return requests{random: random, waiting: make(map[fsm.RequestID]struct{})}
}

// reset forgets the requests of an ended session.
func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.waiting)
	r.order = nil
}

// mintID mints an ID and returns it with the lowest one still waiting; done says
// that its answer was received or given up.
func (r *requests) mintID(now fsm.Time) (id, answered fsm.RequestID, done func(), err error) {
	var noise [8]byte
	if _, err := io.ReadFull(r.random, noise[:]); err != nil {
		return id, answered, nil, fmt.Errorf("mint request ID: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxOutstanding {
		return id, answered, nil, logerr.ErrBusy
	}
	id = entry.NextRequestID(r.last, now, noise)
	r.last = id
	r.waiting[id] = struct{}{}
	r.order = append(r.order, id)
	return id, r.order[0], func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, id)
		for len(r.order) > 0 {
			if _, waits := r.waiting[r.order[0]]; waits {
				return
			}
			r.order = r.order[1:]
		}
	}, nil
}
