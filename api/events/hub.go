package events

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of a hub.
const (
	// MaxReaders is how many readers follow one peer's events at once.
	MaxReaders = 2200
	// Pace is how long after events were handed out the next ones wait for others:
	// of 50 events a second 500 readers take 10 batches each. A single event waits
	// for nothing.
	Pace = 100 * time.Millisecond

	maxRecent = 1024 // rendered events that are kept, of up to 15 KiB each and 400 bytes mostly
	maxBatch  = 500  // events that a reader is given at once

	// maxBatchBytes is of those; the event that goes beyond it is the last one. As many readers
	// as there may be leave as much untaken at once.
	maxBatchBytes  = 32 << 10
	maxNewestBytes = 256 << 10 // of the newest events
)

// Errors of readers.
var (
	// ErrClosed says that this peer stops.
	ErrClosed = errors.New("this peer stops; follow the events on another")
	// ErrTooMany says that MaxReaders follow the events already.
	ErrTooMany = errors.New("too many clients follow the events of this peer; try again later, or another peer")
	// ErrOtherHistory says that a position is of a later founding of the cluster than this peer knows.
	ErrOtherHistory = errors.New("the position is of a later history of the cluster than this peer's; ask another peer")
)

// Log is the replicated state as this peer has applied it.
type Log interface {
	// Changed returns the present view and a channel that is closed when there is
	// a newer one.
	Changed() (fsm.View, <-chan struct{})
}

// Hub hands events out to the readers of one peer. Without a reader it does
// nothing. Its methods may be called concurrently.
type Hub struct {
	log    Log
	closed chan struct{} // closed by Close
	once   sync.Once

	mu      sync.Mutex
	readers int
	stop    context.CancelFunc // ends the follower; nil while there is none
	done    chan struct{}      // closed by the follower when it has ended
	recent  []*Rendered        // the newest events after base, oldest first; its elements never change
	base    eventring.ID
	through eventring.ID  // recent reaches up to here
	news    chan struct{} // closed when recent grows, and replaced
	older   older
}

// NewHub returns a hub. Close ends it.
func NewHub(log Log) *Hub {
	return &Hub{log: log, closed: make(chan struct{}), news: make(chan struct{})}
}

// Close ends all readers with ErrClosed and waits for the hub's own goroutine.
func (h *Hub) Close() {
	h.once.Do(func() { close(h.closed) })
	h.mu.Lock()
	stop, done := h.stop, h.done
	h.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// Readers returns how many readers there are.
func (h *Hub) Readers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers
}

// enter counts a reader; the first one starts the follower.
func (h *Hub) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closed:
		return ErrClosed
	default:
	}
	if h.readers >= MaxReaders {
		return ErrTooMany
	}
	h.readers++
	if h.readers > 1 {
		return nil
	}
	view, _ := h.log.Changed()
	h.recent, h.base, h.through = nil, view.Events().Last(), view.Events().Last()
	previous := h.done
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.done = stop, make(chan struct{})
	go h.renderNewEvents(ctx, previous, h.done)
	return nil
}

// leave ends a reader; after the last one the follower ends.
func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers--; h.readers == 0 {
		h.stop()
		h.recent = nil
		h.older.clear()
	}
}

// renderNewEvents renders new events and wakes the readers, until ctx ends. previous is the
// end of the follower before, nil for the first.
func (h *Hub) renderNewEvents(ctx context.Context, previous <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	if previous != nil {
		<-previous
	}
	for {
		view, changed := h.log.Changed()
		if view.Events().Last().Compare(h.position()) > 0 {
			h.hand(ctx, view)
			if !pace.Wait(ctx, Pace) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Hub) position() eventring.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.through
}

// hand adds the newest events of a view to those that are rendered. More than
// maxRecent at once are left to be read from the ring.
func (h *Hub) hand(ctx context.Context, view fsm.View) {
	var fresh []*Rendered
	base := h.position()
	for e := range view.Events().Newest() {
		if e.ID().Compare(base) <= 0 {
			break
		}
		if len(fresh) == maxRecent {
			base = e.ID()
			break
		}
		fresh = append(fresh, render(e))
	}
	slices.Reverse(fresh)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return // the readers are another follower's
	}
	if len(fresh) == maxRecent {
		h.recent, h.base = nil, base
	}
	if drop := len(h.recent) + len(fresh) - maxRecent; drop > 0 {
		h.base = h.recent[drop-1].ID
		h.recent = h.recent[drop:]
	}
	h.recent = append(slices.Clip(h.recent), fresh...)
	h.through = view.Events().Last()
	close(h.news)
	h.news = make(chan struct{})
}

// since returns the rendered events after a position. ok is false if the position
// is further back. news is closed when there are more.
func (h *Hub) since(id eventring.ID) (found []*Rendered, news <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id.Compare(h.base) < 0 {
		return nil, h.news, false
	}
	first := sort.Search(len(h.recent), func(i int) bool { return h.recent[i].ID.Compare(id) > 0 })
	return h.recent[first:], h.news, true
}

// View returns the state as this peer has applied it.
func (h *Hub) View() fsm.View {
	view, _ := h.log.Changed()
	return view
}
