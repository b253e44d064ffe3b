package receivers

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Pace of the notes about progress in the log.
const (
	// noteEvery is how often a note is written at most, for all receivers together.
	noteEvery = time.Second
	// passEvery is how often one is written that says only that nothing was to be sent.
	passEvery = time.Minute

	noteLimit = 10 * time.Second // of one entry
)

// notes writes the progress of all receivers to the log.
type notes struct {
	log     Log
	failing *slog.Logger
	names   []string // of the receivers that there are
	wake    chan struct{}

	mu      sync.Mutex
	waiting map[string]deliveries.Progress
	written chan struct{} // closed, and replaced, with each note that was written
}

// put has progress written with the next note, and at once if it is urgent.
func (n *notes) put(p deliveries.Progress, urgent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[p.Receiver] = p
	if urgent {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// commit has progress written and waits until it is, or until ctx ends.
func (n *notes) commit(ctx context.Context, p deliveries.Progress) bool {
	n.put(p, true)
	for {
		n.mu.Lock()
		_, waits := n.waiting[p.Receiver]
		written := n.written
		n.mu.Unlock()
		if !waits {
			return true
		}
		select {
		case <-written:
		case <-ctx.Done():
			return false
		}
	}
}

// run writes notes under a leadership until ctx ends.
func (n *notes) run(ctx context.Context, a leader.Authority) {
	for ctx.Err() == nil {
		select {
		case <-n.wake:
		case <-time.After(passEvery):
		case <-ctx.Done():
			return
		}
		n.write(ctx, a)
		if !pace.Wait(ctx, noteEvery) {
			return
		}
	}
}

// write commits what waits. It stays where that fails.
func (n *notes) write(ctx context.Context, a leader.Authority) {
	n.mu.Lock()
	batch := maps.Clone(n.waiting)
	n.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	note := deliveries.Note{}
	for _, name := range slices.Sorted(maps.Keys(batch)) {
		note.Receivers = append(note.Receivers, batch[name])
	}
	view, _ := n.log.Changed()
	note.Forget = n.surplus(view, note.Receivers)
	limited, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	res, err := a.Propose(limited, note)
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		if ctx.Err() == nil {
			n.failing.Warn("note deliveries of events failed, retrying", "err", err)
		}
		select { // what waits is tried again
		case n.wake <- struct{}{}:
		default:
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, p := range batch { // order-free: each by itself
		if n.waiting[name] == p {
			delete(n.waiting, name)
		}
	}
	close(n.written)
	n.written = make(chan struct{})
}

// surplus names receivers that the configuration has no more and whose places new ones
// need. While there is room their progress stays: they may be named again.
func (n *notes) surplus(v fsm.View, noted []deliveries.Progress) (out []string) {
	known := v.Deliveries()
	size := len(known)
	for _, p := range noted {
		if _, there := v.Delivered(p.Receiver); !there {
			size++
		}
	}
	slices.SortStableFunc(known, func(a, b deliveries.Progress) int { return a.Taken.Compare(b.Taken) })
	for _, p := range known {
		if size <= deliveries.MaxReceivers {
			break
		}
		if !slices.Contains(n.names, p.Receiver) {
			out, size = append(out, p.Receiver), size-1
		}
	}
	return out
}
