package api

import (
	"context"
	"net/http"
	"time"
)

// turnstile bounds slow work for callers who have proved nothing yet: so many at
// a time, so many that wait, and those not for ever.
type turnstile struct {
	waiting  chan struct{} // a place each, with those at work; never closed
	working  chan struct{}
	patience time.Duration
	busy     string // what is said to whom there is no room for
}

func newTurnstile(waiting, working int, patience time.Duration, busy string) *turnstile {
	return &turnstile{waiting: make(chan struct{}, waiting), working: make(chan struct{}, working), patience: patience, busy: busy}
}

// enter waits for its turn; then leave must be called. Whoever is turned away is
// not refused: 503.
func (t *turnstile) enter(ctx context.Context) error {
	busy := refuse(http.StatusServiceUnavailable, "%s", t.busy)
	select {
	case t.waiting <- struct{}{}:
	default:
		return busy
	}
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	select {
	case t.working <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-t.waiting
		return busy
	}
}

func (t *turnstile) leave() {
	<-t.working
	<-t.waiting
}
