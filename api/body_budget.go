package api

import (
	"errors"
	"sync/atomic"
	"time"
)

// room is what one body holds of what all may.
type room struct {
	of       *bodies
	sender   *source // nil: its share is not bounded
	deadline func(time.Time) error
	lost     atomic.Bool // its bytes were given to another

	// under the lock of the bodies
	number  uint64 // an older one has a lower one
	bytes   int64
	reading bool // the body has not come in yet
}

var errNoRoom = errors.New("too many bodies are held")

// enter makes a room, without bytes. deadline ends a read of the body.
func (b *bodies) enter(sender *source, deadline func(time.Time) error) *room {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	m := &room{of: b, sender: sender, deadline: deadline, number: b.next, reading: true}
	b.rooms[m] = struct{}{}
	return m
}

// arrived notes that nothing more is read: the room is not taken away any more.
func (b *bodies) arrived(m *room) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.reading = false
}

// take gives a room more bytes, if need be those of others.
func (m *room) take(bytes int) error {
	b := m.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.lost.Load() || m.sender != nil && m.sender.held.Load()+int64(bytes) > maxOfSource {
		return errNoRoom
	}
	for !b.fits(m, int64(bytes)) {
		if !b.displace(m, int64(bytes)) {
			return errNoRoom
		}
	}
	b.resize(m, m.bytes+int64(bytes))
	return nil
}

// fits reports whether a room may grow; the caller holds the lock.
func (b *bodies) fits(m *room, bytes int64) bool {
	large := b.large - largeOf(m.bytes) + largeOf(m.bytes+bytes)
	return b.held.Load()+bytes <= maxDocuments && (largeOf(m.bytes+bytes) == 0 || large <= maxLarge)
}

// largeOf is what a room counts of b.large.
func largeOf(bytes int64) int64 {
	if bytes <= maxSmall+1 { // 1 more sees the end without growing
		return 0
	}
	return bytes
}

// displace takes the room of a body that has not come in, for m. Its source must
// hold more than that of m, also when m has grown. It reports whether there was
// one; the caller holds the lock.
func (b *bodies) displace(m *room, bytes int64) bool {
	of := make(map[any]int64)
	for r := range b.rooms {
		of[r.holder()] += r.bytes
	}
	var loser *room
	for r := range b.rooms {
		if !r.reading || r.bytes == 0 || of[r.holder()] <= of[m.holder()]+bytes || largeOf(m.bytes+bytes) > 0 && largeOf(r.bytes) == 0 {
			continue
		}
		if loser == nil || of[r.holder()] > of[loser.holder()] || of[r.holder()] == of[loser.holder()] && r.number < loser.number {
			loser = r
		}
	}
	if loser == nil {
		return false
	}
	b.resize(loser, 0)
	loser.lost.Store(true)
	_ = loser.deadline(time.Unix(1, 0)) // wakes its reader; a connection that is closed has woken it
	return true
}

// holder is whose bytes are compared: the sender's, or those of the room alone
// where the senders are not told apart, as behind a proxy on this host.
func (m *room) holder() any {
	if m.sender == nil {
		return m
	}
	return m.sender
}

// resize counts a room; the caller holds the lock.
func (b *bodies) resize(m *room, bytes int64) {
	b.large += largeOf(bytes) - largeOf(m.bytes)
	b.held.Add(bytes - m.bytes)
	if m.sender != nil {
		m.sender.held.Add(bytes - m.bytes)
	}
	m.bytes = bytes
}

// release gives all back.
func (m *room) release() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.of.resize(m, 0)
	delete(m.of.rooms, m)
}
