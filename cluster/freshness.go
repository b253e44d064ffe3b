package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Values of knowing that this peer's state is current.
const (
	// currentFor is for how long a confirmed read makes the state current. A
	// leader that dies is replaced sooner, so that its successor's election waits
	// for no inquiry.
	currentFor = 10 * time.Second
	// confirmEvery is the pause between two confirmed reads, and the bound of one.
	confirmEvery = 3 * time.Second
	// confirmRetry is the pause after a read that failed.
	confirmRetry = 500 * time.Millisecond
)

// errStarting refuses requests of raft before the log is open.
var errStarting = errors.New("this peer is starting")

// freshness knows whether the state that this peer has applied is that of the
// cluster as it was at most currentFor ago. That a leader was heard proves less:
// after an absence its first heartbeat comes before the entries that this peer
// has missed, the removal of a peer among them.
type freshness struct {
	confirmed atomic.Pointer[time.Time] // beginning of the last confirmed read; nil: none
}

// holds reports whether the state is current.
func (c *freshness) holds() bool {
	at := c.confirmed.Load()
	return at != nil && time.Since(*at) < currentFor
}

// confirm reads once and returns the pause before the next read.
func (c *freshness) confirm(ctx context.Context, s State) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, confirmEvery)
	defer cancel()
	began := time.Now()
	if _, err := s.Read(ctx); err != nil {
		return confirmRetry // without a leader there is nothing to report: status and log say so
	}
	c.confirmed.Store(&began)
	return confirmEvery
}

// awaitState waits until the log is open, for the moment between the opening of
// the port and that of the log.
func (a *Access) awaitState() error {
	if a.state.Load() != nil {
		return nil
	}
	select {
	case <-a.followed:
		return nil
	case <-time.After(inquiryLimit):
		return errStarting
	}
}
