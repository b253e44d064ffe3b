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
		return value, notInTime(ctx.Err())
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

func notInTime(err error) error {
	return &ironic.Error{Message: "Ironic's list was not read in time", Err: err}
}

// wait keeps the rate. It is for those who read: who gives up first costs nothing of it, and
// one that would give up keeps its turn from no other.
func (r *sharedRead[T]) wait(ctx context.Context) error {
	now := time.Since(r.opened)
	// The next one waits for pause at most, also where that was longer before.
	due := min(max(r.due, now), now+readBurst*r.pause) + r.pause
	early := due - readBurst*r.pause - now
	if end, ok := ctx.Deadline(); ok && early > 0 && early >= time.Until(end) {
		return notInTime(context.DeadlineExceeded)
	}
	if early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
			return notInTime(ctx.Err())
		}
	}
	if ctx.Err() != nil {
		return notInTime(ctx.Err())
	}
	r.due = due
	return nil
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
	pause := min(max(readInterval, readShare*time.Since(began)), longestRead)
	if err == nil || ctx.Err() == nil && ironic.Allowed(ctx) == nil {
		r.last, r.value, r.err, r.pause = number, value, err, pause
	}
	r.pause = max(r.pause, pause) // one that was broken off does not tell how long a reading takes
	return value, err
}
