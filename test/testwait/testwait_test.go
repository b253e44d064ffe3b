package testwait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test that is expected to fail. Fatalf panics, which ends the
// function under test as FailNow would.
type recorder struct {
	testing.TB
	ctx context.Context
}

// failure is what a recorder panics with.
type failure string

func (recorder) Helper()                    {}
func (recorder) Logf(string, ...any)        {}
func (r recorder) Context() context.Context { return r.ctx }
func (recorder) Fatalf(format string, args ...any) {
	panic(failure(fmt.Sprintf(format, args...)))
}

// failed runs wait in a bubble and returns how it failed, "" if it did not, and
// how much virtual time it took.
func failed(t *testing.T, wait func(t testing.TB)) (message string, took time.Duration) {
	t.Helper()
	t.Setenv("CI", "")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		defer func() {
			took = time.Since(began)
			if f, ok := recover().(failure); ok {
				message = string(f)
			}
		}()
		wait(recorder{t, t.Context()})
	})
	return message, took
}

func TestWaitsEndWithinAMinuteAndSayForWhat(t *testing.T) {
	broken := errors.New("it is broken")
	for name, c := range map[string]struct {
		wait func(t testing.TB)
		want string
	}{
		"receive": {func(t testing.TB) { Receive(t, make(chan int), "the answer") }, "the answer"},
		"within": {func(t testing.TB) { ReceiveWithin(t, time.Second, make(chan int), "the answer") },
			"not within 1s: the answer"},
		"send": {func(t testing.TB) { Send(t, make(chan int), 1, "the question is taken") }, "the question is taken"},
		"until": {func(t testing.TB) { Until(t, "a leader", func() bool { return false }) },
			"a leader: the condition does not hold"},
		"check": {func(t testing.TB) { Within(t, time.Second, "a leader", func() error { return broken }) },
			"not within 1s: a leader: it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			message, took := failed(t, c.wait)
			first, stacks, _ := strings.Cut(message, "\n")
			if !strings.Contains(first, c.want) || !strings.Contains(first, "not within") {
				t.Errorf("%q, want %q", first, c.want)
			}
			if !strings.Contains(stacks, "goroutine ") {
				t.Error("it does not say what the goroutines do")
			}
			if took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestWaitsOfCIAreLong: a limit there is for what hangs, not for a busy machine. The
// time that a test watches is the same everywhere.
func TestWaitsOfCIAreLong(t *testing.T) {
	t.Setenv("CI", "true")
	for limit, want := range map[time.Duration]time.Duration{time.Second: ciLimit, Limit: ciLimit, time.Hour: time.Hour} {
		if got := Bound(limit); got != want {
			t.Errorf("%v is stretched to %v, want %v", limit, got, want)
		}
	}
	t.Setenv(ShortWaits, "1")
	if got := Bound(Limit); got != Limit {
		t.Errorf("with short waits %v is stretched to %v", Limit, got)
	}
	t.Setenv(ShortWaits, "")
	synctest.Test(t, func(t *testing.T) {
		silent, broken := make(chan int), errors.New("it is broken")
		for name, c := range map[string]struct {
			wait func() bool // reports whether it ended in vain, as it must
			took time.Duration
		}{
			"take": {func() bool { _, err := Take(time.Second, silent, "a number"); return err != nil }, ciLimit},
			"poll": {func() bool { return Poll(t.Context(), time.Second, "a leader", func() error { return broken }) != nil },
				ciLimit},
			"try": {func() bool { return Try(t.Context(), time.Second, "a leader", func() error { return broken }) != nil },
				time.Second},
			"quiet": {func() bool { return Quiet(time.Second, silent) }, time.Second},
			"rest":  {func() bool { return Rest(t.Context(), time.Second) }, time.Second},
		} {
			began := time.Now()
			if !c.wait() {
				t.Errorf("%s: it ended otherwise", name)
			}
			if took := time.Since(began); took < c.took || took > c.took+restMost {
				t.Errorf("%s: it took %v, want %v", name, took, c.took)
			}
		}
		close(silent)
		if Quiet(time.Hour, silent) {
			t.Error("a closed channel is quiet")
		}
	})
}

func TestWaitsEndWithWhatTheyWaitFor(t *testing.T) {
	message, _ := failed(t, func(t testing.TB) {
		ch, ended := make(chan int), make(chan int)
		go func() {
			time.Sleep(Limit - time.Second) // in a bubble
			ch <- 7
			ended <- <-ch
			close(ended)
		}()
		if got := Receive(t, ch, "a number"); got != 7 {
			t.Fatalf("received %d", got)
		}
		Send(t, ch, 8, "the number is taken")
		if sent, closed := Receive(t, ended, "what was sent"), Receive(t, ended, "the end"); sent != 8 || closed != 0 {
			t.Fatalf("sent %d, then %d", sent, closed)
		}
		tries := 0
		Until(t, "the third try", func() bool { tries++; return tries == 3 })
		Elapse(t, time.Hour, "an hour passes")
		looks, began := 0, time.Now()
		Every(t, time.Second, time.Minute, func() { looks++ })
		if took := time.Since(began); looks != 60 || took != time.Minute {
			t.Fatalf("%d looks in %v", looks, took)
		}
	})
	if message != "" {
		t.Error(message)
	}
}

func TestPollEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("it is broken")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := Poll(ctx, time.Hour, "a leader", func() error { return broken })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, broken) ||
			!strings.Contains(err.Error(), "a leader") {
			t.Error(err)
		}
		if err := Poll(t.Context(), time.Second, "a leader", func() error { return nil }); err != nil {
			t.Error(err)
		}
		if Rest(ctx, time.Hour) || !Rest(t.Context(), time.Hour) {
			t.Error("a rest ends with its context, and not before")
		}
	})
}
