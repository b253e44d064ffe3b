package identify

import (
	"context"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"
)

// How often a list of Ironic's is read for callbacks that any client may send.
const (
	// readInterval is the time between two readings, of those that come in a row
	// after the first readBurst.
	readInterval = time.Second
	readBurst    = 4
	// readShare is how many times its own length follows a reading: Ironic is
	// kept busy a fifth of the time at most, unless that would let a ramdisk wait
	// for longer than longestRead.
	readShare   = 4
	longestRead = 8 * time.Second
)

// sharedRead reads one thing for all who ask for it: those that come while it is
// read share the next reading. It may be used concurrently.
type sharedRead[T any] struct {
	read   func(ctx context.Context) (T, error)
	opened time.Time
	turn   chan struct{} // holds one value while a reader is at work

	mu    sync.Mutex
	begun uint64 // readings

	// Only the reading whose turn it is uses these.
	last  uint64 // the newest reading that was finished
	value T
	err   error
	due   time.Duration // since opened: until when the rate is used up
	pause time.Duration // what one reading costs of it
}

func newSharedRead[T any](read func(ctx context.Context) (T, error)) *sharedRead[T] {
	return &sharedRead[T]{read: read, opened: time.Now(), turn: make(chan struct{}, 1), pause: readInterval}
}

// Get returns what a reading gave that began after the call.
func (r *sharedRead[T]) Get(ctx context.Context) (value T, err error) {
	r.mu.Lock()
	before := r.begun
	r.mu.Unlock()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return value, &ironic.Error{Message: "Ironic's list was not read in time", Err: ctx.Err()}
	}
	defer func() { <-r.turn }()
	if r.last > before {
		return r.value, r.err
	}
	if err := r.wait(ctx); err != nil {
		return value, err
	}
	return r.now(ctx)
}

// wait keeps the rate.
func (r *sharedRead[T]) wait(ctx context.Context) error {
	r.due = max(r.due, time.Since(r.opened)) + r.pause
	early := r.due - readBurst*r.pause - time.Since(r.opened)
	if early <= 0 {
		return nil
	}
	select {
	case <-time.After(early):
		return nil
	case <-ctx.Done():
		return &ironic.Error{Message: "Ironic's list was not read in time", Err: ctx.Err()}
	}
}

// now reads. What fails because of this reader, who gave up or lost its claim,
// is no answer for others.
func (r *sharedRead[T]) now(ctx context.Context) (T, error) {
	r.mu.Lock()
	r.begun++
	number := r.begun
	r.mu.Unlock()
	began := time.Now()
	value, err := r.read(ctx)
	r.pause = min(max(readInterval, readShare*time.Since(began)), longestRead)
	if err == nil || ctx.Err() == nil && ironic.Allowed(ctx) == nil {
		r.last, r.value, r.err = number, value, err
	}
	return value, err
}
