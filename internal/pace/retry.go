package pace

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"time"
)

// Retry says how a call that failed is tried again.
type Retry struct {
	// Pause lies between the first two tries. Each further one is twice as long, up to
	// Most; 0: all are as long as the first. Spread lengthens each.
	Pause, Most time.Duration
	// Wish returns the least pause that an error asks for; nil: none does.
	Wish func(err error) time.Duration
	// Tries are made at most; 0: as many as there is time for.
	Tries int
	// Budget bounds the time of all tries and pauses together; 0: the context alone does.
	Budget time.Duration
	// Random draws the lengths of pauses; nil: crypto/rand.
	Random io.Reader
	// Log gets a line with the reason before each further try, in which Call names the
	// operation and its object; nil: nothing is logged.
	Log   *slog.Logger
	Level slog.Level
	Call  string
}

// EndedError is the failure of a call for which no time was left: its context ended, or
// would have ended before the next try.
type EndedError struct {
	Err   error // of the last try
	Cause error // why the context ended; errors.Is finds context.DeadlineExceeded for a Budget
}

// Error implements error.
func (e *EndedError) Error() string {
	if errors.Is(e.Err, e.Cause) {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v; then the call was ended: %v", e.Err, e.Cause)
}

// Unwrap returns both errors.
func (e *EndedError) Unwrap() []error { return []error{e.Err, e.Cause} }

// overBudget is a context's end that is a Budget's.
type overBudget time.Duration

func (b overBudget) Error() string { return fmt.Sprintf("its time of %v is over", time.Duration(b)) }

func (b overBudget) Is(target error) bool { return target == context.DeadlineExceeded }

// Try makes try n of a call, from 1 on; again reports whether another one may help.
type Try func(ctx context.Context, n int) (again bool, err error)

// Do calls try until it succeeds or says that no further try would help, or there are no
// tries or no time left. Its context ends with the budget. The error is that of the last
// try, in an *EndedError if there was no time for another. A pause that would outlast the
// time is not begun.
func (r Retry) Do(ctx context.Context, try Try) error {
	over := context.DeadlineExceeded
	if end, bounded := ctx.Deadline(); r.Budget > 0 && (!bounded || time.Until(end) > r.Budget) {
		over = overBudget(r.Budget)
		limited, cancel := context.WithTimeoutCause(ctx, r.Budget, over)
		defer cancel()
		ctx = limited
	}
	for n, pause := 1, r.Pause; ; n, pause = n+1, min(2*pause, max(r.Pause, r.Most)) {
		again, err := try(ctx, n)
		switch {
		case err == nil, !again:
			return err
		case ctx.Err() != nil:
			return &EndedError{Err: err, Cause: context.Cause(ctx)}
		case n == r.Tries:
			return err
		}
		wait := Spread(r.Random, pause)
		if r.Wish != nil {
			wait = max(wait, r.Wish(err))
		}
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= wait {
			return &EndedError{Err: err, Cause: over}
		}
		if r.Log != nil {
			r.Log.Log(ctx, r.Level, r.Call+" failed, retrying", "tries", n, "retry_in", wait, "err", err)
		}
		if !Wait(ctx, wait) {
			return &EndedError{Err: err, Cause: context.Cause(ctx)}
		}
	}
}

// Spread returns a pause of d to one and a half d, so that programs that failed together
// do not come back together. random is nil for crypto/rand; one that gives nothing leaves
// d as it is.
func Spread(random io.Reader, d time.Duration) time.Duration {
	if random == nil {
		random = rand.Reader
	}
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil || d <= 0 {
		return d
	}
	more, _ := bits.Mul64(binary.BigEndian.Uint64(b[:]), uint64(d)/2)
	return d + time.Duration(more)
}
