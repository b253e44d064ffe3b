package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatIsAskedForOftenIsReadAhead: nobody waits for it, nobody gets what is older
// than fresh, and it is read once at a time.
func TestWhatIsAskedForOftenIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 300 * time.Millisecond
		s := newReadCache[time.Time](time.Now)
		var reads atomic.Int32
		var fails atomic.Bool
		get := func() (age, waited time.Duration, err error) {
			began := time.Now()
			at, err := s.get(t.Context(), "name", func(error) bool { return false }, func(context.Context) (time.Time, error) {
				reads.Add(1)
				at := time.Now()
				time.Sleep(slow) // in a bubble
				if fails.Load() {
					return time.Time{}, errors.New("no answer")
				}
				return at, nil
			})
			return time.Since(at), time.Since(began), err
		}
		if _, waited, err := get(); err != nil || waited != slow {
			t.Fatalf("the first waits %v, %v", waited, err)
		}
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			if age, waited, err := get(); err != nil || waited != 0 || age >= freshTTL {
				t.Fatalf("read-ahead: waited %v for what is %v old, %v", waited, age, err)
			}
		}
		if n := reads.Load(); n < 10 || n > 21 {
			t.Errorf("read %d times in ten seconds", n)
		}
		fails.Store(true) // what is known serves, and those who ask find the fault
		time.Sleep(freshTTL)
		for range 20 {
			if age, _, err := get(); err != nil || age < freshTTL {
				t.Fatalf("while nobody answers: %v old, %v", age, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.wait()
	})
}

// A caller that hangs up while its name is read fails no other that waits for the same name,
// now or right after, and is itself told at once.
func TestWhoHangsUpFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 20 * time.Millisecond
		s := newReadCache[int](time.Now)
		reads := 0
		get := func(ctx context.Context) (int, error) {
			return s.get(ctx, "name", func(error) bool { return false }, func(ctx context.Context) (int, error) {
				reads++
				select {
				case <-time.After(slow): // in a bubble
					return 7, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
		}
		hasty, cancel := context.WithTimeout(t.Context(), slow/2)
		defer cancel()
		told := make(chan time.Duration)
		began := time.Now()
		go func() {
			_, _ = get(hasty)
			told <- time.Since(began)
		}()
		synctest.Wait()
		if value, err := get(t.Context()); value != 7 || err != nil || reads != 1 {
			t.Errorf("hung-up: who waited for the same got %d, %v after %d reads", value, err, reads)
		}
		if waited := <-told; waited != slow/2 {
			t.Errorf("hung-up-waits: who hung up after %v was held for %v", slow/2, waited)
		}
	})
}

// A call that its caller gave up is no silence of the API server; one without an answer in its
// own time is.
func TestWhoGivesUpSilencesNoServer(t *testing.T) {
	c := &Cluster{o: Options{Timeout: time.Nanosecond, Now: time.Now}}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ctx, end := c.within(gone)
	defer end()
	if err := c.noteAnswer(ctx, "list nodes", ctx.Err()); !errors.Is(err, context.Canceled) || c.Ready() != nil {
		t.Errorf("given-up-is-silence: %v, %v", err, c.Ready())
	}
	ctx, end = c.within(t.Context())
	defer end()
	<-ctx.Done()
	if err := c.noteAnswer(ctx, "list nodes", ctx.Err()); !errors.Is(err, errLate) || c.Ready() == nil {
		t.Errorf("late-is-silence: %v, %v", err, c.Ready())
	}
}
