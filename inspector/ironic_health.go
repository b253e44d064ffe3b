package inspector

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
	pingTimeout       = 3 * time.Second  // one question
	// lastingAfter is what the others need at most to notice that Ironic is away,
	// and to say so in the log when they renew their sessions.
	lastingAfter = healthyInterval + pingTimeout + 4*time.Second
)

// Pinger is what an IronicHealth asks.
type Pinger interface {
	Ping(ctx context.Context) error
}

// IronicHealth knows whether Ironic can be reached from this peer. Its methods may be
// called concurrently.
type IronicHealth struct {
	ironic Pinger
	log    *slog.Logger

	mu    sync.Mutex
	asked bool
	err   error     // why not, nil if it can
	since time.Time // of that; zero if it never changed
}

// NewIronicHealth believes that Ironic is there until it was asked.
func NewIronicHealth(ironic Pinger, log *slog.Logger) *IronicHealth {
	return &IronicHealth{ironic: ironic, log: log}
}

// Run asks again and again until ctx ends.
func (h *IronicHealth) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := healthyInterval
		if h.Check(ctx) != nil {
			wait = unhealthyInterval
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// Check asks now and returns the answer.
func (h *IronicHealth) Check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := h.ironic.Ping(limited)
	if ctx.Err() != nil {
		return h.Err() // the question was withdrawn, not answered
	}
	h.note(err)
	return h.Err()
}

// note keeps the answer and logs a change.
func (h *IronicHealth) note(err error) {
	if err != nil {
		err = fmt.Errorf("Ironic cannot be reached from this peer: %w", err)
	}
	changed, away := h.set(err)
	switch {
	case changed && err == nil:
		h.log.Info("Ironic reachable again", "after", away.Round(time.Second))
	case changed:
		h.log.Warn("Ironic unreachable: this peer claims no more requests", "err", err)
	}
}

// set returns whether the answer is another one, and for how long the last one
// held.
func (h *IronicHealth) set(err error) (changed bool, held time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = true
	if (err == nil) == (h.err == nil) {
		return false, 0
	}
	held = time.Since(h.since)
	h.err, h.since = err, time.Now()
	return true, held
}

// Err returns why Ironic cannot be reached, nil if it can.
func (h *IronicHealth) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Lasting is Err once that has lasted for so long that the log tells whether it
// is so on the other peers. An Ironic that is restarted is no reason to hand
// leadership round: the next leader has only not asked yet.
func (h *IronicHealth) Lasting() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.since) < lastingAfter {
		return nil
	}
	return h.err
}

// Proven reports whether Ironic answered when it was last asked. What is only
// believed is nothing to tell other peers.
func (h *IronicHealth) Proven() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked && h.err == nil
}

// LostSince reports whether Ironic could not be reached at some time since t, as
// far as was noticed.
func (h *IronicHealth) LostSince(t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err != nil || h.since.After(t)
}
