package admission

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bytes bounds a Memory.
type Bytes struct {
	All   int64 // held at once
	Share int64 // of one source
	Small int64 // of an ordinary holding
	Large int64 // of all that are larger than Small; the rest is for small ones
	// Of rooms that Reserve waits for: Known is what one known sender may have, Strange what
	// all larger than Small may whose senders are not known (0: no bound of their own), and
	// Waiting how many rooms of each lane wait, one source's half of them at most.
	Known   int64
	Strange int64
	Waiting int
}

// Memory counts the bytes that requests hold: bodies that come in, which wait for their
// room (Reserve), and answers that are not taken yet, which do not (Take).
type Memory struct {
	bytes Bytes
	held  atomic.Int64 // changed under mu

	mu    sync.Mutex
	next  uint64
	large int64 // bytes of rooms above Small
	// strange are those of senders that are not known, if Bytes.Strange bounds them
	strange int64
	coming  map[*Room]struct{}     // may be lost
	of      map[netip.Prefix]int64 // bytes of a source; only those that hold some
	lanes   [roomLanes]lane
	again   *time.Timer // looks for slow rooms while others wait; nil: none waits
}

// NewMemory returns a memory of which nothing is held.
func NewMemory(b Bytes) *Memory {
	return &Memory{bytes: b, coming: make(map[*Room]struct{}), of: make(map[netip.Prefix]int64)}
}

// Held returns the bytes that are held.
func (m *Memory) Held() int64 { return m.held.Load() }

// Room is what one request holds. It belongs to one goroutine.
type Room struct {
	of     *Memory
	source netip.Prefix // the zero Prefix has a share of its own in each room
	known  bool         // which machine sends it is known
	lose   func()
	lost   atomic.Bool
	pace   pace

	// under the lock of the memory
	number uint64 // an older one has a lower one
	bytes  int64
	since  time.Time // when it was let in by Reserve
}

// Take gives a source room for so many bytes of an answer, until done is called. Its error
// is ErrBusy.
func (m *Memory) Take(source netip.Prefix, bytes int64) (done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Room{of: m, source: source}
	if source.IsValid() && m.of[source]+bytes > m.bytes.Share || !m.fits(r, bytes) {
		return nil, ErrBusy
	}
	m.resize(r, bytes)
	return r.Release, nil
}

// Settle notes that the room is filled: it is not lost any more.
func (r *Room) Settle() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	delete(r.of.coming, r)
}

// shrink leaves a room at most so many bytes.
func (r *Room) shrink(bytes int64) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if bytes < r.bytes {
		r.of.resize(r, bytes)
		r.of.serve()
	}
}

// Lost reports whether the bytes of the room were given to another.
func (r *Room) Lost() bool { return r.lost.Load() }

// Release gives all bytes back. It may be called again.
func (r *Room) Release() {
	r.Settle()
	r.shrink(0)
}

// fits reports whether a room may have more bytes; the caller holds the lock.
func (m *Memory) fits(r *Room, more int64) bool {
	grown := m.largeOf(r.bytes + more)
	beyond := grown - m.largeOf(r.bytes)
	if grown > 0 && m.strangers(r) && m.strange+beyond > m.bytes.Strange {
		return false
	}
	return m.held.Load()+more <= m.bytes.All && (grown == 0 || m.large+beyond <= m.bytes.Large)
}

// strangers reports whether a room is one of those that Bytes.Strange bounds.
func (m *Memory) strangers(r *Room) bool { return m.bytes.Strange > 0 && !r.known }

// largeOf is what a room of so many bytes counts of Bytes.Large.
func (m *Memory) largeOf(bytes int64) int64 {
	if bytes <= m.bytes.Small {
		return 0
	}
	return bytes
}

// displace takes the bytes of a room that is not filled for a waiter; see gives. It reports
// whether there was one; the caller holds the lock.
func (m *Memory) displace(w *waiter) bool {
	var loser *Room
	now := time.Now()
	for other := range m.coming { // order-free: the largest, and of those the oldest
		if !m.gives(other, w, now) {
			continue
		}
		if loser == nil || m.heldBy(other) > m.heldBy(loser) ||
			m.heldBy(other) == m.heldBy(loser) && other.number < loser.number {
			loser = other
		}
	}
	if loser == nil {
		return false
	}
	delete(m.coming, loser)
	m.resize(loser, 0)
	loser.lost.Store(true)
	loser.lose()
	return true
}

// gives reports whether a room gives way to a waiter: the bytes of a sender that is not known
// to those of one that is, or to those of a source that has fewer still then; and what does not
// come in, to all.
func (m *Memory) gives(other *Room, w *waiter, now time.Time) bool {
	switch {
	case m.largeOf(w.bytes) > 0 && m.largeOf(other.bytes) == 0:
		return false
	case other.pace.slow(now):
		return true
	case now.Sub(other.since) < arriveFor:
		return false // it would be let in and lost in turn with smaller ones
	default:
		return !other.known && (w.room.known || m.heldBy(other) > m.heldBy(w.room)+w.bytes)
	}
}

// heldBy is the bytes that are compared: the source's, or those of the room alone
// where callers are not told apart, as behind a proxy on this host.
func (m *Memory) heldBy(r *Room) int64 {
	if !r.source.IsValid() {
		return r.bytes
	}
	return m.of[r.source]
}

// resize counts a room; the caller holds the lock.
func (m *Memory) resize(r *Room, bytes int64) {
	beyond := m.largeOf(bytes) - m.largeOf(r.bytes)
	m.large += beyond
	if m.strangers(r) {
		m.strange += beyond
	}
	m.held.Add(bytes - r.bytes)
	if r.source.IsValid() {
		if m.of[r.source] += bytes - r.bytes; m.of[r.source] == 0 {
			delete(m.of, r.source)
		}
	}
	r.bytes = bytes
}
