// Package testwait holds the waits of tests that run in real time. Every wait has
// a bound and names what it waits for, so a test that would block for ever fails
// within Limit and its message says what did not happen.
//
// A bound catches what hangs, and judges no duration: with CI=true each is at least
// ten minutes (Bound), so that a busy machine fails no test. A test that would pass
// because something took longer than its bound is wrong: it needs virtual time.
//
// A test uses Receive and Send instead of a bare channel operation, Until and
// Within instead of a loop that sleeps, and Elapse where real time itself is what
// it tests. A wait that may well end in vain uses Quiet or Try, whose time is never
// more than asked for. Where virtual time will do, testing/synctest is better than any of
// them: there a test that blocks is found at once.
//
// Functions with a testing.TB end the test when they fail. Call them from the
// goroutine that runs the test, as testing.TB.FailNow demands; other goroutines
// use Poll, Try, Take, Quiet and Rest, which return how it went.
package testwait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// Limit bounds a wait that has no bound of its own. What tests wait for takes
// milliseconds; the rest is for machines that are busy with other things. It is what
// a developer waits for a test that hangs; see Bound for continuous integration.
const Limit = 45 * time.Second

// ciLimit is the shortest bound of a wait with CI=true.
const ciLimit = 10 * time.Minute

// ShortWaits is the variable that leaves the bounds of waits as they are with CI=true: where a
// test is to fail, by a mutant, its wait has to end before the program of tests does.
const ShortWaits = "TRIVET_TEST_SHORT_WAITS"

// Bound returns how long a wait with that limit may take: the limit, and with CI=true
// at least ten minutes, unless ShortWaits is set. Receive, Send, Until, Within, Poll and Take apply it; a test
// that sets a deadline of its own, of a connection or a context, calls it.
func Bound(limit time.Duration) time.Duration {
	if os.Getenv("CI") == "true" && os.Getenv(ShortWaits) == "" {
		return max(limit, ciLimit)
	}
	return limit
}

// Poll looks at least this often and never less often than restMost.
const (
	restLeast = 5 * time.Millisecond
	restMost  = 500 * time.Millisecond
)

// errNotYet is the error of a condition that does not hold.
var errNotYet = errors.New("the condition does not hold")

// Receive returns the next value of ch, or the zero value once ch is closed.
// It ends the test if neither comes within Limit.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	return ReceiveWithin(t, Limit, ch, what)
}

// ReceiveWithin is Receive with a bound of its own.
func ReceiveWithin[T any](t testing.TB, limit time.Duration, ch <-chan T, what string) T {
	t.Helper()
	v, err := Take(limit, ch, what)
	if err != nil {
		fail(t, err)
	}
	return v
}

// Send sends v on ch. It ends the test if nothing receives it within Limit.
func Send[T any](t testing.TB, ch chan<- T, v T, what string) {
	t.Helper()
	limit := Bound(Limit)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case ch <- v:
	case <-timer.C:
		fail(t, fmt.Errorf("not within %v: %s", limit, what))
	}
}

// Until waits until condition holds. It ends the test if that is not within Limit.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	UntilWithin(t, Limit, what, condition)
}

// UntilWithin is Until with a bound of its own.
func UntilWithin(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	Within(t, limit, what, func() error {
		if !condition() {
			return errNotYet
		}
		return nil
	})
}

// Within waits until check returns nil. It ends the test with the last error of
// check if that is not within limit.
func Within(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := Poll(context.Background(), limit, what, check); err != nil {
		fail(t, err)
	}
}

// Poll waits until check returns nil, and returns the last error of check if
// that is not within limit or before ctx ends.
func Poll(ctx context.Context, limit time.Duration, what string, check func() error) error {
	return Try(ctx, Bound(limit), what, check)
}

// Try is Poll for a wait that may well end in vain, and has another way to go on: its
// limit is the same on every machine.
func Try(ctx context.Context, limit time.Duration, what string, check func() error) error {
	for end := time.Now().Add(limit); ; {
		asked := time.Now()
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s: %w", limit, what, err)
		}
		// A check that runs commands takes the processors away from what it waits
		// for: it gets a fifth of the time.
		if !Rest(ctx, max(restLeast, min(4*time.Since(asked), restMost))) {
			return fmt.Errorf("%s: %w (last: %w)", what, context.Cause(ctx), err)
		}
	}
}

// Take returns the next value of ch, or an error if none comes within limit.
func Take[T any](limit time.Duration, ch <-chan T, what string) (v T, err error) {
	limit = Bound(limit)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v = <-ch:
		return v, nil
	case <-timer.C:
		return v, fmt.Errorf("not within %v: %s", limit, what)
	}
}

// Quiet waits for d and reports whether that passed before ch had a value or was
// closed.
func Quiet[T any](d time.Duration, ch <-chan T) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ch:
		return false
	}
}

// Every calls do once in each period, at once for the first time, until total has
// passed. It is for tests that watch something for a while.
func Every(t testing.TB, period, total time.Duration, do func()) {
	t.Helper()
	for end := time.Now().Add(total); time.Now().Before(end) && t.Context().Err() == nil; {
		do()
		Rest(t.Context(), period)
	}
}

// Elapse lets d of real time pass, less if the test's context ends. It is for
// tests that measure real time or watch that something does not happen; why says
// which.
func Elapse(t testing.TB, d time.Duration, why string) {
	t.Helper()
	if !Rest(t.Context(), d) {
		t.Logf("ended early: %s", why)
	}
}

// Rest waits for d and reports whether that passed before ctx ended.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxStacks bounds the stacks of a failure's message.
const maxStacks = 64 << 10

// fail ends the test with what it waited for and what every goroutine does.
func fail(t testing.TB, err error) {
	t.Helper()
	stacks := make([]byte, maxStacks)
	t.Fatalf("%v\n%s", err, stacks[:runtime.Stack(stacks, true)])
}
