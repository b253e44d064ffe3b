package admission

import (
	"net/netip"
	"sync"
)

// Table bounds what callers hold for as long as they like, as connections. When it is
// full, one that comes takes the place of one that the source with the most holds. So a
// flood from a few sources keeps no others out.
type Table struct {
	limit, share int

	mu   sync.Mutex
	next uint64
	held map[netip.Prefix]map[*Holding]struct{} // by source; only those that hold some
	size int
}

// NewTable returns a table for so many holdings, and so many of one source.
func NewTable(limit, share int) *Table {
	return &Table{limit: limit, share: share, held: make(map[netip.Prefix]map[*Holding]struct{})}
}

// Holding is one place in a table.
type Holding struct {
	of     *Table
	source netip.Prefix
	end    func()

	// under the lock of the table
	idle   bool   // it is lost before those that are in use
	number uint64 // lower of one that is idle, or in use, for longer
}

// Enter makes a holding, which is idle. full says that there is no room in any case. end
// ends what is held, if the holding gives way to another. The second result is to be
// ended in its place, and is counted no more: an idle one, the oldest of those; else any,
// but only of a source that has more still when it has lost one; else the new one itself.
// It is nil while there is room.
func (t *Table) Enter(source netip.Prefix, full bool, end func()) (h, surplus *Holding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h = &Holding{of: t, source: source, end: end, idle: true}
	if surplus = t.surplus(h, full); surplus == h {
		return h, h
	}
	if surplus != nil {
		t.forget(surplus)
	}
	if t.held[source] == nil {
		t.held[source] = make(map[*Holding]struct{})
	}
	t.held[source][h] = struct{}{}
	t.size++
	h.number = t.count()
	return h, surplus
}

// count numbers what happens; the caller holds the lock.
func (t *Table) count() uint64 {
	t.next++
	return t.next
}

// surplus returns what is to be ended for one more holding; the caller holds the lock.
func (t *Table) surplus(h *Holding, full bool) *Holding {
	own := len(t.held[h.source])
	most := own
	var losers []netip.Prefix
	switch {
	case own >= t.share:
		losers = []netip.Prefix{h.source}
	case full, t.size >= t.limit:
		losers, most = t.largest(h.source)
	default:
		return nil
	}
	if idle := t.oldest(losers, func(h *Holding) bool { return h.idle }); idle != nil {
		return idle
	}
	if most > own+1 {
		return t.oldest(losers, func(*Holding) bool { return true })
	}
	return h
}

// largest returns the sources that hold the most, and how much: from alone when none
// holds more. The caller holds the lock.
func (t *Table) largest(from netip.Prefix) (sources []netip.Prefix, most int) {
	own := len(t.held[from])
	sources, most = []netip.Prefix{from}, own
	for source, of := range t.held { // order-free: all of the largest
		switch {
		case len(of) > most:
			sources, most = []netip.Prefix{source}, len(of)
		case len(of) == most && most > own:
			sources = append(sources, source)
		}
	}
	return sources, most
}

func (t *Table) oldest(of []netip.Prefix, which func(*Holding) bool) (oldest *Holding) {
	for _, source := range of {
		for h := range t.held[source] { // order-free: the oldest
			if which(h) && (oldest == nil || h.number < oldest.number) {
				oldest = h
			}
		}
	}
	return oldest
}

// forget counts a holding no more; the caller holds the lock.
func (t *Table) forget(h *Holding) {
	if _, ok := t.held[h.source][h]; !ok {
		return // it gave way to another, or was never counted
	}
	delete(t.held[h.source], h)
	t.size--
	if len(t.held[h.source]) == 0 {
		delete(t.held, h.source)
	}
}

// Source returns whose holding it is.
func (h *Holding) Source() netip.Prefix { return h.source }

// End ends what is held, as one does with a surplus.
func (h *Holding) End() { h.end() }

// Leave counts a holding no more. It may be called again.
func (h *Holding) Leave() {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.forget(h)
}

// Idle notes whether a holding is in use. One that is idle again is the newest of those.
func (h *Holding) Idle(idle bool) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if h.idle = idle; idle {
		h.number = h.of.count()
	}
}

// Held returns how many holdings a source has.
func (t *Table) Held(source netip.Prefix) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held[source])
}

// Idle returns how many holdings are not in use.
func (t *Table) Idle() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.held {
		for h := range of { // order-free: a count
			if h.idle {
				n++
			}
		}
	}
	return n
}
