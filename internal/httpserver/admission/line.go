package admission

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrBusy says that there was no place, and no room or time to wait for one. The same
// request may succeed later.
var ErrBusy = errors.New("too many requests at once")

// Places bounds what a Line lets in. Every field must be set, but Waiting and Wait
// of a line in which nothing waits, and Each and All of one whose work is not bounded.
type Places struct {
	AtOnce  int           // that are in at a time
	OfKnown int           // of those, how many are for the callers of higher lanes
	Share   int           // of one source, of those
	Waiting int           // callers that wait, of each lane; one source has half of them at most
	Wait    time.Duration // the longest wait
	// Refusal is how long one takes for which there was no room: a caller that comes again
	// at once would cost as much as one that is let in.
	Refusal time.Duration
	// Each and All are how much work one source, and all, may cause: an event is a
	// millisecond in a place. What goes beyond it keeps its place for longer.
	Each, All Pace
	// First has callers of a higher lane served before all of the lower ones; else the
	// lanes are served in turn.
	First bool
	// Waits says that what is in waits for others nearly all of its time, as for the log:
	// only what it costs besides is work.
	Waits bool
}

// Line has places for a number of callers at once; the rest wait, and not for ever.
// Callers wait in lanes. The lanes are served in turn or the highest first, and within a
// lane the sources in turn; those of one source in the order in which they came. So a flood from one source
// delays another's caller by one turn.
type Line struct {
	places Places
	work   *Rates // nil: not bounded

	mu    sync.Mutex
	idle  int                  // places
	in    map[netip.Prefix]int // callers that are in, by source; only those that have some
	lanes []lane
	next  int // the lane that is served next
}

// NewLine returns a line with a number of lanes.
func NewLine(p Places, lanes int) *Line {
	l := &Line{places: p, idle: p.AtOnce, in: make(map[netip.Prefix]int), lanes: make([]lane, lanes)}
	if p.Each != (Pace{}) {
		l.work = NewRates(p.Each, p.All)
	}
	return l
}

// Enter waits for a place, in a lane counted from 0. If it returns nil, Leave must be
// called for the source. Its errors are ErrBusy and, where the caller went away while
// it waited, the cause of ctx's end.
func (l *Line) Enter(ctx context.Context, lane int, source netip.Prefix) error {
	w, ok := l.join(lane, source)
	if !ok {
		return l.refuse(ctx)
	}
	if w == nil {
		return nil
	}
	if err := w.await(ctx, l.places.Wait, func() bool { return l.withdraw(lane, w) }); err != nil {
		return err
	}
	if !w.admitted {
		return l.refuse(ctx)
	}
	// Who left has made this goroutine the next to run. Those that were ready before go
	// first, the log's among them: while places go from hand to hand they would wait for a
	// slice of Go's scheduler, 10 ms, each time.
	runtime.Gosched()
	return nil
}

// refuse takes its time and returns ErrBusy.
func (l *Line) refuse(ctx context.Context) error {
	timer := time.NewTimer(l.places.Refusal)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ErrBusy
}

// join takes an idle place (no waiter then), or waits in line; false: there is no
// room.
func (l *Line) join(lane int, source netip.Prefix) (*waiter, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.may(lane, source) {
		l.takePlace(source)
		return nil, true
	}
	w := &waiter{source: source, decided: make(chan struct{})}
	return w, l.lanes[lane].push(w, l.places.Waiting)
}

// may reports whether there is a place for a source; the caller holds the lock.
func (l *Line) may(lane int, source netip.Prefix) bool {
	idle := l.idle
	if lane == unknownLane {
		idle -= l.places.OfKnown
	}
	return idle > 0 && l.in[source] < l.places.Share
}

// takePlace gives a source one place; the caller holds the lock.
func (l *Line) takePlace(source netip.Prefix) {
	l.idle--
	l.in[source]++
}

// pass waits for the turn of a caller that causes so much work and needs no place for it.
// Its errors are those of Enter.
func (l *Line) pass(ctx context.Context, lane int, source netip.Prefix, work time.Duration) error {
	if err := l.Enter(ctx, lane, source); err != nil {
		return err
	}
	l.LeaveAfter(source, work)
	return nil
}

// maxCharged is the most that one request is charged with: one that stood still for long
// has waited for something.
const maxCharged = 250 * time.Millisecond

// LeaveAfter is Leave for a caller that was in for a while. Where its source causes too
// much work, or all do, the place stays taken until the work is within its pace: what one
// asks for as fast as it is answered takes a part of a processor, not all of it.
func (l *Line) LeaveAfter(source netip.Prefix, work time.Duration) {
	if l.work == nil {
		l.Leave(source)
		return
	}
	own, all := l.work.Charge(source, min(work, maxCharged).Seconds()*1000)
	wait := max(own, all)
	if wait <= 0 {
		l.Leave(source)
		return
	}
	time.AfterFunc(min(wait, l.places.Wait), func() { l.Leave(source) }) // as many as there are places
}

// pay charges work of a caller that is in, and waits until its source is within its pace, and
// in the lowest lane until all are. One that goes away meanwhile did not do it.
func (l *Line) pay(ctx context.Context, lane int, source netip.Prefix, work time.Duration) error {
	if l.work == nil {
		return nil
	}
	events := work.Seconds() * 1000
	wait, all := l.work.Charge(source, events)
	if lane == unknownLane {
		wait = max(wait, all)
	}
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		l.work.Charge(source, -events)
		return context.Cause(ctx)
	}
}

// Leave gives the place of a source's caller to the next in line.
func (l *Line) Leave(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle++
	if l.in[source]--; l.in[source] == 0 {
		delete(l.in, source)
	}
	for n := range l.lanes {
		at := (l.next + n) % len(l.lanes)
		if l.places.First {
			at = len(l.lanes) - 1 - n
		}
		if w := l.lanes[at].pop(func(w *waiter) bool { return l.may(at, w.source) }); w != nil {
			l.next = at + 1
			l.takePlace(w.source)
			w.decide(true)
			return
		}
	}
}

// Idle returns how many places nothing has taken, and how many callers wait.
func (l *Line) Idle() (places, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.lanes {
		waiting += of.waiting
	}
	return l.idle, waiting
}

// withdraw takes a caller out of line who waits no longer; false: it was decided
// already.
func (l *Line) withdraw(lane int, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes[lane].remove(w)
}

// waiter is one caller in line.
type waiter struct {
	source   netip.Prefix
	room     *Room         // that it waits for; nil in a Line
	bytes    int64         // of that
	admitted bool          // valid once decided is closed
	decided  chan struct{} // closed under the line's lock, once
}

// await returns when it is decided, or an error: ErrBusy after the longest wait, the cause
// of ctx's end after that. withdraw takes the waiter out of line, as Line.withdraw does.
func (w *waiter) await(ctx context.Context, longest time.Duration, withdraw func() bool) error {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-w.decided:
		return nil
	case <-timer.C:
		if withdraw() {
			return ErrBusy
		}
	case <-ctx.Done():
		if withdraw() {
			return context.Cause(ctx)
		}
	}
	<-w.decided // meanwhile
	return nil
}

func (w *waiter) decide(admitted bool) {
	w.admitted = admitted
	close(w.decided)
}

// lane is callers in line, by their sources. The lock of the Line guards it.
type lane struct {
	sources []*queue // that have a waiter in line; the first is served next
	waiting int
}

// queue is the callers of one source, the oldest first; never empty.
type queue struct {
	source  netip.Prefix
	waiters []*waiter
}

// push appends a caller, and reports whether there was room. In a full lane a
// caller displaces the newest one of the source that has the most in line,
// unless its own source would then have more.
func (q *lane) push(w *waiter, most int) bool {
	at := slices.IndexFunc(q.sources, func(of *queue) bool { return of.source == w.source })
	own := 0
	if at >= 0 {
		own = len(q.sources[at].waiters)
	}
	if own >= most/2 || q.waiting >= most && !q.displace(own+1) {
		return false
	}
	q.waiting++
	if at < 0 {
		q.sources = append(q.sources, &queue{source: w.source, waiters: []*waiter{w}})
		return true
	}
	q.sources[at].waiters = append(q.sources[at].waiters, w)
	return true
}

// displace refuses the newest caller of the source with the most, if it has more
// than atMost. That source keeps its turn, since it has at least one more.
func (q *lane) displace(atMost int) bool {
	largest := slices.MaxFunc(q.sources, func(a, b *queue) int { return len(a.waiters) - len(b.waiters) })
	last := len(largest.waiters) - 1
	if last < atMost {
		return false
	}
	largest.waiters[last].decide(false)
	largest.waiters = slices.Delete(largest.waiters, last, last+1)
	q.waiting--
	return true
}

// first returns the next caller of a source that may have a place; nil if there is none.
func (q *lane) first(may func(*waiter) bool) *waiter {
	for _, of := range q.sources {
		if may(of.waiters[0]) {
			return of.waiters[0]
		}
	}
	return nil
}

// pop takes the next caller out of line that may have a place; nil if there is none.
func (q *lane) pop(may func(*waiter) bool) *waiter {
	at := slices.IndexFunc(q.sources, func(of *queue) bool { return may(of.waiters[0]) })
	if at < 0 {
		return nil
	}
	of := q.sources[at]
	w := of.waiters[0]
	q.sources = slices.Delete(q.sources, at, at+1)
	if of.waiters = slices.Delete(of.waiters, 0, 1); len(of.waiters) > 0 {
		q.sources = append(q.sources, of)
	}
	q.waiting--
	return w
}

// remove takes one caller out of line; false: it is not in line.
func (q *lane) remove(w *waiter) bool {
	for at, of := range q.sources {
		n := slices.Index(of.waiters, w)
		if n < 0 {
			continue
		}
		if of.waiters = slices.Delete(of.waiters, n, n+1); len(of.waiters) == 0 {
			q.sources = slices.Delete(q.sources, at, at+1)
		}
		q.waiting--
		return true
	}
	return false
}
