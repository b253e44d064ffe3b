package admission

import (
	"context"
	"io"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"
)

// The lanes of rooms that wait, the highest served first: those of known senders, and of
// each the small ones.
const (
	strangersLarge = iota
	strangersSmall
	knownLarge
	knownSmall
	roomLanes
)

// A body that keeps others waiting gives way to them when the waits for its sender exceed
// slowFor and the time that slowPace gives it.
const (
	slowFor   = 2 * time.Second
	slowPace  = 64 << 10 // bytes a second
	slowEvery = 250 * time.Millisecond
	arriveFor = time.Second // a body that was let in gives way to none but for being slow
)

// Reserve waits, for as long as longest, until there is room for so many bytes of a body. The
// sender is known where the source is that of one machine alone. Until then the caller holds
// nothing: an unread body is kept by its sender. While the room is not settled it may be lost:
// its bytes are another's, and lose is called once, under a lock, to wake the goroutine that
// fills the room. The caller releases it. Its errors are those of Line.Enter.
func (m *Memory) Reserve(
	ctx context.Context, source netip.Prefix, known bool, bytes int64, longest time.Duration, lose func(),
) (*Room, error) {
	r := &Room{of: m, source: source, known: known, lose: lose}
	w := &waiter{source: source, room: r, bytes: bytes, decided: make(chan struct{})}
	lane := m.laneOf(w)
	if !m.push(lane, w) {
		return nil, ErrBusy
	}
	err := w.await(ctx, longest, func() bool { return m.withdraw(lane, w) })
	if err == nil && !w.admitted {
		err = ErrBusy
	}
	if err != nil {
		return nil, err
	}
	runtime.Gosched() // as Line.Enter does
	return r, nil
}

// Waiting returns how many rooms wait for their bytes.
func (m *Memory) Waiting() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting()
}

func (m *Memory) waiting() (n int) {
	for _, l := range m.lanes {
		n += l.waiting
	}
	return n
}

func (m *Memory) laneOf(w *waiter) int {
	lane := strangersLarge
	if w.room.known {
		lane = knownLarge
	}
	if m.largeOf(w.bytes) == 0 {
		lane++
	}
	return lane
}

// push puts a waiter in line, and serves the line; false: there is no room in it.
func (m *Memory) push(lane int, w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.bytes > m.share(w) || !m.lanes[lane].push(w, m.bytes.Waiting) {
		return false
	}
	m.serve()
	return true
}

func (m *Memory) withdraw(lane int, w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.lanes[lane].remove(w) {
		return false
	}
	m.serve() // it may have stood before smaller ones
	return true
}

// serve gives room to those that wait; the caller holds the lock. What waits for the bytes
// of all keeps lower lanes waiting, or small bodies would take each byte before a large one
// has enough.
func (m *Memory) serve() {
	for lane := roomLanes - 1; lane >= 0 && m.serveLane(lane); lane-- {
	}
	if m.again == nil && m.waiting() > 0 {
		m.again = time.AfterFunc(slowEvery, func() { // for rooms that have become slow
			m.mu.Lock()
			defer m.mu.Unlock()
			m.again = nil
			m.serve()
		})
	}
}

// serveLane is serve for one lane, and reports whether the lower ones have their turn. What
// waits until it fits keeps back only sources that hold as much as its own: the waiters of
// one that holds a lot, and sends nothing, keep no others back.
func (m *Memory) serveLane(lane int) bool {
	below, free := int64(math.MaxInt64), true
	for {
		w := m.lanes[lane].first(func(w *waiter) bool { return m.of[w.source] < below && m.withinShare(w) })
		if w == nil {
			return free
		}
		if !m.makeRoom(w) {
			below = m.of[w.source]
			free = free && m.held.Load()+w.bytes <= m.bytes.All
			continue
		}
		m.lanes[lane].pop(func(next *waiter) bool { return next == w })
		m.resize(w.room, w.bytes)
		m.next++
		w.room.since, w.room.number = time.Now(), m.next
		m.coming[w.room] = struct{}{}
		w.decide(true)
	}
}

// makeRoom has others give way to a waiter until it fits; false: they do not.
func (m *Memory) makeRoom(w *waiter) bool {
	for !m.fits(w.room, w.bytes) {
		if !m.displace(w) {
			return false
		}
	}
	return true
}

// withinShare reports whether a waiter's source may have its bytes.
func (m *Memory) withinShare(w *waiter) bool {
	return !w.source.IsValid() || m.of[w.source]+w.bytes <= m.share(w)
}

func (m *Memory) share(w *waiter) int64 {
	if w.room.known {
		return m.bytes.Known
	}
	return m.bytes.Share
}

// pace is how fast a body comes in: how long its reader has waited for the sender, and not
// for anything here.
type pace struct {
	came   atomic.Int64 // bytes
	waited atomic.Int64 // ns of reads that have ended
	since  atomic.Int64 // when a read began that waits, in Unix ns; 0: none does
}

// slow reports whether a body may give way to another. It may while nothing is read, too:
// then its reader waits for its turn, and the sender is not slow.
func (p *pace) slow(now time.Time) bool {
	waited := p.waited.Load()
	if since := p.since.Load(); since != 0 {
		waited += now.UnixNano() - since
	}
	return waited > int64(slowFor)+p.came.Load()*int64(time.Second)/slowPace
}

// Read is that of a body which fills the room.
func (r *Room) Read(body io.Reader, p []byte) (int, error) {
	began := time.Now()
	r.pace.since.Store(began.UnixNano())
	n, err := body.Read(p)
	r.pace.since.Store(0)
	r.pace.waited.Add(int64(time.Since(began)))
	r.pace.came.Add(int64(n))
	return n, err
}
