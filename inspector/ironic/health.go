package ironic

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// How often Ironic is asked whether it is there.
const (
	healthyInterval   = 10 * time.Second // while it answers
	unhealthyInterval = 2 * time.Second  // while it does not
	// lastingAfter is what the others need at most to notice that Ironic is away,
	// and to say so in the log when they renew their sessions.
	lastingAfter = healthyInterval + pingTimeout + 4*time.Second
	// doubtInterval is how often it is asked after a call had no answer, and
	// minDoubt and maxDoubt bound for how long.
	doubtInterval = 500 * time.Millisecond
	minDoubt      = time.Minute
	maxDoubt      = 10 * time.Minute
)

// Pinger is what a Health asks.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Health knows whether Ironic can be reached from this peer. Its methods may be
// called concurrently.
type Health struct {
	ironic Pinger
	log    *slog.Logger
	says   words

	mu    sync.Mutex
	asked bool
	err   error     // why not, nil if it can
	since time.Time // of that; zero if it never changed
	heard time.Time // when the newest question was asked that was answered
	// A call had no answer at doubted; until then it is asked more often.
	doubted, until time.Time
	doubts         chan struct{} // holds a value when doubt begins
}

// NewHealth believes that Ironic is there until it was asked.
func NewHealth(ironic Pinger, log *slog.Logger) *Health {
	says := words{lost: unreachable, away: "Ironic unreachable: this peer claims no more requests",
		back: "Ironic reachable again"}
	return &Health{ironic: ironic, log: log, says: says, doubts: make(chan struct{}, 1)}
}

// words are what a Health says of what it asks: in an error, and in the log.
type words struct{ lost, away, back string }

// Run asks again and again until ctx ends.
func (h *Health) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := healthyInterval
		switch {
		case h.Check(ctx) != nil:
			wait = unhealthyInterval
		case h.isDoubted():
			wait = doubtInterval
		}
		select {
		case <-time.After(wait):
		case <-h.doubts:
		case <-ctx.Done():
		}
	}
}

// Check asks now and returns the answer.
func (h *Health) Check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	began := time.Now()
	err := h.ironic.Ping(limited)
	if ctx.Err() != nil {
		return h.Err() // the question was withdrawn, not answered
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", h.says.lost, err)
	}
	switch changed, away := h.keepAnswer(began, err); {
	case changed && err == nil:
		h.log.Info(h.says.back, "after", away.Round(time.Second))
	case changed:
		h.log.Warn(h.says.away, "err", err)
	}
	return h.Err()
}

// Singled reports whether Ironic is there and fails at one thing: a call of what
// began at began had no answer, or a gateway's. One silence proves nothing: an
// Ironic that was stopped, and goes on before it was asked, looks the same. So
// the first is never judged. From then on Ironic is asked often, and a later call
// is, if Ironic answered questions until the call failed.
func (h *Health) Singled(ctx context.Context, began time.Time) bool {
	witnessed := h.noteNoAnswer(began)
	return h.Check(ctx) == nil && !h.LostSince(began) && witnessed
}

// noteNoAnswer notes a call that had no answer and reports whether Ironic was in doubt
// already when that began, and answered a question that was asked since and a
// moment ago.
func (h *Health) noteNoAnswer(began time.Time) (witnessed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.After(h.until) {
		h.doubted = now
	}
	h.until = now.Add(min(max(2*now.Sub(began), minDoubt), maxDoubt))
	select {
	case h.doubts <- struct{}{}:
	default:
	}
	return !began.Before(h.doubted) && h.heard.After(began) && now.Sub(h.heard) < 2*doubtInterval
}

// isDoubted reports whether calls had no answer lately.
func (h *Health) isDoubted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until)
}

// unreachable is what status, readyz and the page say; people search for it.
const unreachable = "Ironic cannot be reached from this peer"

// keepAnswer returns whether the answer to a question is another one, and for how long the
// last one held.
func (h *Health) keepAnswer(asked time.Time, err error) (changed bool, held time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = true
	if err == nil && asked.After(h.heard) {
		h.heard = asked
	}
	if (err == nil) == (h.err == nil) {
		return false, 0
	}
	held = time.Since(h.since)
	h.err, h.since = err, time.Now()
	return true, held
}

// Err returns why Ironic cannot be reached, nil if it can.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Lasting is Err once that has lasted for so long that the log tells whether it
// is so on the other peers. An Ironic that is restarted is no reason to hand
// leadership round: the next leader has only not asked yet.
func (h *Health) Lasting() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.since) < lastingAfter {
		return nil
	}
	return h.err
}

// Proven reports whether Ironic answered when it was last asked. What is only
// believed is nothing to tell other peers.
func (h *Health) Proven() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked && h.err == nil
}

// LostSince reports whether Ironic could not be reached at some time since t, as
// far as was noticed.
func (h *Health) LostSince(t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err != nil || h.since.After(t)
}
