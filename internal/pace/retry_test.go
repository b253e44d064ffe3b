package pace

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// exact is a source of randomness that leaves pauses as they are.
func exact() *strings.Reader { return strings.NewReader("") }

var (
	errBusy = errors.New("busy")
	errGone = errors.New("the caller has left")
)

// Tries are made at once, then after pauses that double, until one succeeds or is final,
// or tries or time are used up; the error names the end of the time.
func TestRetry(t *testing.T) {
	const ms, h = time.Millisecond, time.Hour
	at := func(ms ...int) (all []time.Duration) {
		for _, n := range ms {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	late := context.DeadlineExceeded
	four := func(error) time.Duration { return 4 * ms }
	const (
		budget = "busy; then the call was ended: its time of 5ms is over"
		limit  = "busy; then the call was ended: context deadline exceeded"
		left   = "busy; then the call was ended: the caller has left"
	)
	for name, c := range map[string]retryCase{
		"at once":            {retry: Retry{Pause: ms}, good: 1, at: at(0, 0)},
		"pauses double":      {retry: Retry{Pause: ms, Most: 3 * ms}, good: 5, at: at(0, 1, 3, 6, 9, 9)},
		"pauses stay":        {retry: Retry{Pause: ms}, good: 3, at: at(0, 1, 2, 2)},
		"final":              {retry: Retry{Pause: ms}, final: 2, at: at(0, 1, 1), want: "busy", is: errBusy},
		"tries are used up":  {retry: Retry{Pause: ms, Tries: 3}, at: at(0, 1, 2, 2), want: "busy", is: errBusy},
		"budget is used up":  {retry: Retry{Pause: 2 * ms, Budget: 5 * ms}, at: at(0, 2, 4, 4), want: budget, is: late},
		"the caller's limit": {retry: Retry{Pause: 2 * ms, Budget: h}, limit: 3 * ms, at: at(0, 2, 2), want: limit, is: late},
		"the caller leaves":  {retry: Retry{Pause: 2 * ms}, leave: 3 * ms, at: at(0, 2, 3), want: left, is: errGone},
		"a wish":             {retry: Retry{Pause: ms, Wish: four}, good: 3, at: at(0, 4, 8, 8)},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

// retryCase is a call that fails until its good or its final try, if it has one.
type retryCase struct {
	retry Retry
	limit time.Duration   // of the caller's context; 0: none
	leave time.Duration   // after which the caller ends the context
	good  int             // the try that succeeds
	final int             // the try that is final
	at    []time.Duration // when tries are made, and the end
	want  string
	is    error
}

// run makes the call in a bubble.
func (c retryCase) run(t *testing.T) {
	ctx, leave := context.WithCancelCause(t.Context())
	defer leave(nil)
	if c.limit > 0 {
		limited, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		ctx = limited
	}
	if c.leave > 0 {
		time.AfterFunc(c.leave, func() { leave(errGone) })
	}
	c.retry.Random = exact()
	began := time.Now()
	var at []time.Duration
	err := c.retry.Do(ctx, func(_ context.Context, n int) (again bool, err error) {
		at = append(at, time.Since(began))
		if n != len(at) {
			t.Errorf("try %d counts as %d", len(at), n)
		}
		if n == c.good {
			return true, nil
		}
		return n != c.final, errBusy
	})
	if at = append(at, time.Since(began)); !slices.Equal(at, c.at) {
		t.Errorf("retry-times: tries and the end at %v, want %v", at, c.at)
	}
	known := errors.Is(err, c.is) && errors.Is(err, errBusy)
	if (err == nil) != (c.want == "") || err != nil && (err.Error() != c.want || !known) {
		t.Errorf("retry-error: %v, want %q", err, c.want)
	}
}

// The reason of each failed try is in the log, and how long the next one is put off.
func TestRetrySaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		r := Retry{Pause: time.Second, Tries: 2, Random: exact(), Log: log, Call: "switch the machine off"}
		err := r.Do(t.Context(), func(context.Context, int) (bool, error) { return true, errBusy })
		if !errors.Is(err, errBusy) {
			t.Error(err)
		}
		want := `level=INFO msg="switch the machine off failed, retrying" tries=1 retry_in=1s err=busy`
		if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("retry-log: %q, want one line with %q", got, want)
		}
	})
}

// A pause is never shorter than it was said to be, at most half as long again, and of
// another length each time.
func TestSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 1000 {
		d := Spread(nil, time.Second)
		if d < time.Second || d > 1500*time.Millisecond {
			t.Fatalf("spread: %v of a second", d)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("spread: %d lengths of 1000", len(seen))
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if got := Spread(nil, d); got != d {
			t.Errorf("spread: %v of %v", got, d)
		}
	}
}
