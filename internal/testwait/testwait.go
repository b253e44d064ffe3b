// Package testwait holds the waits of tests that run in real time. Every wait has
// a bound and names what it waits for, so a test that would block for ever fails
// within Limit and its message says what did not happen.
//
// A test uses Receive and Send instead of a bare channel operation, Until and
// Within instead of a loop that sleeps, and Elapse where real time itself is what
// it tests. Where virtual time will do, testing/synctest is better than any of
// them: there a test that blocks is found at once.
//
// Functions with a testing.TB end the test when they fail. Call them from the
// goroutine that runs the test, as testing.TB.FailNow demands; other goroutines
// use Poll, which returns an error.
package testwait

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Limit bounds a wait that has no bound of its own. What tests wait for takes
// milliseconds; the rest is for machines that are busy with other things.
const Limit = 45 * time.Second

// Poll looks at least this often and never less often than restMost.
const (
	restLeast = 5 * time.Millisecond
	restMost  = 500 * time.Millisecond
)

// Receive returns the next value of ch, or the zero value once ch is closed.
// It ends the test if neither comes within Limit.
func Receive[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	return ReceiveWithin(t, Limit, ch, what)
}

// ReceiveWithin is Receive with a bound of its own.
func ReceiveWithin[T any](t testing.TB, limit time.Duration, ch <-chan T, what string) (v T) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v = <-ch:
	case <-timer.C:
		fail(t, limit, what, nil)
	}
	return v
}

// Send sends v on ch. It ends the test if nothing receives it within Limit.
func Send[T any](t testing.TB, ch chan<- T, v T, what string) {
	t.Helper()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case ch <- v:
	case <-timer.C:
		fail(t, Limit, what, nil)
	}
}

// Until waits until condition holds. It ends the test if that is not within Limit.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Within(t, Limit, what, func() error {
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
	if err := poll(context.Background(), limit, check); err != nil {
		fail(t, limit, what, err)
	}
}

// Poll waits until check returns nil, and returns the last error of check if
// that is not within limit or before ctx ends.
func Poll(ctx context.Context, limit time.Duration, what string, check func() error) error {
	if err := poll(ctx, limit, check); err != nil {
		return fmt.Errorf("not within %v: %s: %w", limit, what, err)
	}
	return nil
}

// Elapse lets d of real time pass, less if the test's context ends. It is for
// tests that measure real time or watch that something does not happen; why says
// which.
func Elapse(t testing.TB, d time.Duration, why string) {
	t.Helper()
	if !rest(t.Context(), d) {
		t.Logf("ended early: %s", why)
	}
}

// notYet is the error of a condition that does not hold.
type notYet struct{}

// Error implements error.
func (notYet) Error() string { return "the condition does not hold" }

var errNotYet = notYet{}

func poll(ctx context.Context, limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; {
		asked := time.Now()
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
		// A check that runs commands takes the processors away from what it waits
		// for: it gets a fifth of the time.
		if !rest(ctx, max(restLeast, min(4*time.Since(asked), restMost))) {
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// rest reports whether d passed before ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
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
func fail(t testing.TB, limit time.Duration, what string, err error) {
	t.Helper()
	stacks := make([]byte, maxStacks)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if err == nil {
		t.Fatalf("not within %v: %s\n%s", limit, what, stacks)
	}
	t.Fatalf("not within %v: %s: %v\n%s", limit, what, err, stacks)
}
