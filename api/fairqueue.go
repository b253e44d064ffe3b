package api

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// class is what is known of a caller whose credentials are yet to be checked.
type class uint8

const (
	newcomer         class = iota // nothing
	knownSource                   // other credentials from the same source were good lately
	knownCredentials              // these credentials were good lately
	classes          = iota
)

// Bounds of a fairQueue. A request that waits costs some 10 KiB, and with the
// longest headers some 40 KiB.
const (
	maxWaiting         = 512              // of each class
	maxWaitingOfSource = maxWaiting / 2   // and class
	maxQueueWait       = 30 * time.Second // then 503; 120 checks of 228 ms (bcrypt, cost 12) take 27 s
)

// fairQueue bounds the work on credentials: so many checks at a time, the rest
// wait, and not for ever. Classes are served in turn, and within a class the
// sources; those of one source in the order in which they came. A flood of wrong
// passwords therefore delays good credentials by a few checks: two if they were
// good lately, one for each source that floods if they were not. It may be used
// concurrently.
type fairQueue struct {
	busy string // the message of a refusal

	mu     sync.Mutex
	idle   int // checks that could run now; positive only if nothing waits
	queues [classes]sourceQueue
	next   int // the class that is served next
}

// newFairQueue returns a queue for so many checks at a time.
func newFairQueue(working int, busy string) *fairQueue {
	return &fairQueue{busy: busy, idle: working}
}

// enter waits for its turn; if it returns nil, leave must be called. A caller
// for whom there is no room or time is not refused for good: 503.
func (q *fairQueue) enter(ctx context.Context, known class, source netip.Prefix) error {
	w, ok := q.join(known, source)
	if !ok {
		return q.refuse()
	}
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxQueueWait)
	defer cancel()
	select {
	case <-w.decided:
	case <-ctx.Done():
		if q.withdraw(known, w) {
			return q.refuse()
		}
		<-w.decided // it was decided meanwhile
	}
	if !w.admitted {
		return q.refuse()
	}
	return nil
}

func (q *fairQueue) refuse() error {
	return refuse(http.StatusServiceUnavailable, "%s", q.busy)
}

// join takes an idle place (no waiter then), or waits in line; false: there is no
// room.
func (q *fairQueue) join(known class, source netip.Prefix) (*waiter, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle > 0 {
		q.idle--
		return nil, true
	}
	w := &waiter{source: source, decided: make(chan struct{})}
	return w, q.queues[known].push(w)
}

// leave gives the place to the next in line.
func (q *fairQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n := range classes {
		at := (q.next + n) % classes
		if w := q.queues[at].pop(); w != nil {
			q.next = at + 1
			w.decide(true)
			return
		}
	}
	q.idle++
}

// withdraw takes a caller out of line who waits no longer; false: it was decided
// already.
func (q *fairQueue) withdraw(known class, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queues[known].remove(w)
}

// waiter is one caller in line.
type waiter struct {
	source   netip.Prefix
	admitted bool          // valid once decided is closed
	decided  chan struct{} // closed under the queue's lock, once
}

func (w *waiter) decide(admitted bool) {
	w.admitted = admitted
	close(w.decided)
}

// sourceQueue is one class: callers in line, by their sources. The lock of the
// fairQueue guards it.
type sourceQueue struct {
	sources []*sourceLine // that have a waiter in line; the first is served next
	waiting int
}

// sourceLine is the callers of one source, the oldest first; never empty.
type sourceLine struct {
	source  netip.Prefix
	waiters []*waiter
}

// push appends a caller, and reports whether there was room. In a full queue a
// caller displaces the newest one of the source that has the most in line,
// unless its own source would then have more.
func (q *sourceQueue) push(w *waiter) bool {
	at := slices.IndexFunc(q.sources, func(l *sourceLine) bool { return l.source == w.source })
	own := 0
	if at >= 0 {
		own = len(q.sources[at].waiters)
	}
	if own >= maxWaitingOfSource || q.waiting >= maxWaiting && !q.displace(own+1) {
		return false
	}
	q.waiting++
	if at < 0 {
		q.sources = append(q.sources, &sourceLine{source: w.source, waiters: []*waiter{w}})
		return true
	}
	q.sources[at].waiters = append(q.sources[at].waiters, w)
	return true
}

// displace refuses the newest caller of the source with the most, if it has more
// than atMost. That source keeps its place, since it has at least one more.
func (q *sourceQueue) displace(atMost int) bool {
	most := slices.MaxFunc(q.sources, func(a, b *sourceLine) int { return len(a.waiters) - len(b.waiters) })
	last := len(most.waiters) - 1
	if last < atMost {
		return false
	}
	most.waiters[last].decide(false)
	most.waiters = slices.Delete(most.waiters, last, last+1)
	q.waiting--
	return true
}

// pop takes the next caller out of line; nil if there is none.
func (q *sourceQueue) pop() *waiter {
	if len(q.sources) == 0 {
		return nil
	}
	line := q.sources[0]
	w := line.waiters[0]
	q.sources = slices.Delete(q.sources, 0, 1)
	if line.waiters = slices.Delete(line.waiters, 0, 1); len(line.waiters) > 0 {
		q.sources = append(q.sources, line)
	}
	q.waiting--
	return w
}

// remove takes one caller out of line; false: it is not in line.
func (q *sourceQueue) remove(w *waiter) bool {
	for at, line := range q.sources {
		n := slices.Index(line.waiters, w)
		if n < 0 {
			continue
		}
		if line.waiters = slices.Delete(line.waiters, n, n+1); len(line.waiters) == 0 {
			q.sources = slices.Delete(q.sources, at, at+1)
		}
		q.waiting--
		return true
	}
	return false
}
