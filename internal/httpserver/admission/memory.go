package admission

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bytes bounds a Memory. Every field must be set.
type Bytes struct {
	All   int64 // held at once
	Share int64 // of one source
	Small int64 // of an ordinary holding
	Large int64 // of all that are larger than Small; the rest is for small ones
	// Of rooms that Reserve waits for: Known is what one known sender may have, Strange what
	// all larger than Small may whose senders are not known, and Waiting how many rooms of
	// each lane wait, one source's half of them at most. 0 where nothing is reserved.
	Known   int64
	Strange int64
	Waiting int
}

// Memory counts the bytes that requests hold: bodies that come in, answers that are
// not taken yet. When there is no room, the source that holds the most loses its
// oldest holding that may be lost.
type Memory struct {
	bytes Bytes
	held  atomic.Int64 // changed under mu

	mu    sync.Mutex
	next  uint64
	large int64 // bytes of rooms above Small
	// strange are those of senders that are not known, if Bytes.Strange bounds them
	strange int64
	rooms   map[*Room]struct{}
	of      map[netip.Prefix]int64 // bytes of a source; only those that hold some
	lanes   [roomLanes]lane
	again   *time.Timer // looks for slow rooms while others wait; nil: none waits
}

// NewMemory returns a memory of which nothing is held.
func NewMemory(b Bytes) *Memory {
	return &Memory{bytes: b, rooms: make(map[*Room]struct{}), of: make(map[netip.Prefix]int64)}
}

// Held returns the bytes that are held.
func (m *Memory) Held() int64 { return m.held.Load() }

// Room is what one request holds. It belongs to one goroutine.
type Room struct {
	of     *Memory
	source netip.Prefix
	lose   func()
	known  bool // which machine sends it is known
	lost   atomic.Bool
	pace   pace

	// under the lock of the memory
	number  uint64 // an older one has a lower one
	bytes   int64
	settled bool      // it is not lost any more
	since   time.Time // when it was let in by Reserve
}

// Enter returns a room without bytes, for a source or, if that is the zero Prefix, for
// a caller with a share of its own. When the room is lost, its bytes are another's
// and lose is called once, under a lock: it wakes the goroutine that fills the room. A
// nil lose makes a room that is never lost. The caller releases the room.
func (m *Memory) Enter(source netip.Prefix, lose func()) *Room {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	r := &Room{of: m, source: source, lose: lose, number: m.next, settled: lose == nil}
	m.rooms[r] = struct{}{}
	return r
}

// Settle notes that the room is filled: it is not lost any more.
func (r *Room) Settle() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.settled = true
}

// grow gives a room at least so many bytes; its error is ErrBusy.
func (r *Room) grow(bytes int64) error {
	r.of.mu.Lock()
	more := bytes - r.bytes
	r.of.mu.Unlock()
	if more <= 0 && !r.Lost() {
		return nil
	}
	return r.Take(int(more))
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

// Take gives a room more bytes, if need be those of others; its error is ErrBusy.
func (r *Room) Take(bytes int) error {
	m, more := r.of, int64(bytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Lost() || r.source.IsValid() && m.of[r.source]+more > m.bytes.Share {
		return ErrBusy
	}
	for !m.fits(r, more) {
		if !m.displace(r, more) {
			return ErrBusy
		}
	}
	m.resize(r, r.bytes+more)
	return nil
}

// Release gives all bytes back. It may be called again.
func (r *Room) Release() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.resize(r, 0)
	delete(r.of.rooms, r)
	r.of.serve()
}

// fits reports whether a room may grow; the caller holds the lock.
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

// displace takes the bytes of a room that may be lost, for r; see gives. It reports
// whether there was one; the caller holds the lock.
func (m *Memory) displace(r *Room, more int64) bool {
	var loser *Room
	now := time.Now()
	for other := range m.rooms { // order-free: the largest, and of those the oldest
		if !m.gives(other, r, more, now) {
			continue
		}
		if loser == nil || m.heldBy(other) > m.heldBy(loser) || m.heldBy(other) == m.heldBy(loser) && other.number < loser.number {
			loser = other
		}
	}
	if loser == nil {
		return false
	}
	m.resize(loser, 0)
	loser.lost.Store(true)
	loser.lose()
	return true
}

// gives reports whether a room gives way to r, when that grows: the bytes of a sender that
// is not known to those of one that is, or to those of a source that has fewer still then;
// and what does not come in, to all.
func (m *Memory) gives(other, r *Room, more int64, now time.Time) bool {
	switch {
	case other == r, other.settled, other.bytes == 0, m.largeOf(r.bytes+more) > 0 && m.largeOf(other.bytes) == 0:
		return false
	case other.pace.slow(now):
		return true
	case now.Sub(other.since) < arriveFor:
		return false // it would be let in and lost in turn with smaller ones
	default:
		return !other.known && (r.known || m.heldBy(other) > m.heldBy(r)+more)
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
