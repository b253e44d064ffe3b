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
	reachGood  = 10 * time.Second // while it answers
	reachBad   = 2 * time.Second  // while it does not
	reachLimit = 3 * time.Second  // one question
	// reachNews is what the others need at most to notice that Ironic is away,
	// and to say so in the log when they renew their sessions.
	reachNews = reachGood + reachLimit + 4*time.Second
)

// Pinger is what a Reach asks.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Reach knows whether Ironic can be reached from this peer. Its methods may be
// called concurrently.
type Reach struct {
	ironic Pinger
	log    *slog.Logger

	mu    sync.Mutex
	asked bool
	err   error     // why not, nil if it can
	since time.Time // of that; zero if it never changed
}

// NewReach believes that Ironic is there until it was asked.
func NewReach(ironic Pinger, log *slog.Logger) *Reach { return &Reach{ironic: ironic, log: log} }

// Run asks again and again until ctx ends.
func (r *Reach) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := reachGood
		if r.Check(ctx) != nil {
			wait = reachBad
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// Check asks now and returns the answer.
func (r *Reach) Check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	err := r.ironic.Ping(limited)
	if ctx.Err() != nil {
		return r.Err() // the question was withdrawn, not answered
	}
	r.note(err)
	return r.Err()
}

// note keeps the answer and logs a change.
func (r *Reach) note(err error) {
	if err != nil {
		err = fmt.Errorf("Ironic cannot be reached from this peer: %w", err)
	}
	changed, away := r.set(err)
	switch {
	case changed && err == nil:
		r.log.Info("Ironic reachable again", "after", away.Round(time.Second))
	case changed:
		r.log.Warn("Ironic unreachable: this peer claims no more requests", "err", err)
	}
}

// set returns whether the answer is another one, and for how long the last one
// held.
func (r *Reach) set(err error) (changed bool, held time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
	if (err == nil) == (r.err == nil) {
		return false, 0
	}
	held = time.Since(r.since)
	r.err, r.since = err, time.Now()
	return true, held
}

// Err returns why Ironic cannot be reached, nil if it can.
func (r *Reach) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Lasting is Err once that has lasted for so long that the log tells whether it
// is so on the other peers. An Ironic that is restarted is no reason to hand
// leadership round: the next leader has only not asked yet.
func (r *Reach) Lasting() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.since) < reachNews {
		return nil
	}
	return r.err
}

// Proven reports whether Ironic answered when it was last asked. What is only
// believed is nothing to tell other peers.
func (r *Reach) Proven() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked && r.err == nil
}

// LostSince reports whether Ironic could not be reached at some time since t, as
// far as was noticed.
func (r *Reach) LostSince(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil || r.since.After(t)
}
