package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// The sources of a caller without credentials and of an API server.
var stranger, server1 = netip.MustParsePrefix("192.0.2.66/32"), netip.MustParsePrefix("192.0.2.1/32")

// TestWhatIsAskedForOftenIsReadAhead: nobody waits for it, nobody gets what is older
// than fresh, and it is read once at a time.
func TestWhatIsAskedForOftenIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 300 * time.Millisecond
		s := newReadCache[time.Time](time.Now, nil)
		var reads atomic.Int32
		var fails atomic.Bool
		get := func() (age, waited time.Duration, err error) {
			began := time.Now()
			at, err := s.get(t.Context(), netip.Prefix{}, "name", func(error) bool { return false },
				func(context.Context) (time.Time, error) {
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
		s := newReadCache[int](time.Now, nil)
		reads := 0
		get := func(ctx context.Context) (int, error) {
			return s.get(ctx, netip.Prefix{}, "name", func(error) bool { return false }, func(ctx context.Context) (int, error) {
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

// One caller that asks about invented names as fast as it is answered keeps no other waiting: not
// another source, whatever name it asks for, and not its own for names that exist. All reads
// leave a fifth of the calls to the leader's chores.
func TestInventedNamesKeepNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 40 * time.Second
		s := newReadCache[time.Time](time.Now, admission.NewLine(reads, readLanes))
		var count, invented atomic.Int64
		get := func(ctx context.Context, source netip.Prefix, name string) (age, waited time.Duration, err error) {
			began := time.Now()
			value, err := s.get(ctx, source, name, func(error) bool { return true },
				func(context.Context) (time.Time, error) {
					count.Add(1)
					at := time.Now()
					time.Sleep(10 * time.Millisecond) // in a bubble
					if name[0] == 'x' {
						return at, errors.New("not found")
					}
					return at, nil
				})
			return time.Since(value), time.Since(began), err
		}
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		if _, _, err := get(ctx, stranger, "ns2"); err != nil {
			t.Fatal(err)
		}
		for range 450 {
			go func() {
				for ctx.Err() == nil {
					_, _, _ = get(ctx, stranger, fmt.Sprintf("x%d", invented.Add(1)))
				}
			}()
		}
		for n := 0; ctx.Err() == nil; n++ {
			for name, source := range map[string]netip.Prefix{
				"ns1": server1, fmt.Sprintf("new%d", n): server1, "ns2": stranger} {
				age, waited, err := get(t.Context(), source, name)
				if err != nil || waited > 500*time.Millisecond || age > freshTTL {
					t.Fatalf("invented-names: round %d, %s of %v: what is %v old after %v, %v", n, name, source, age, waited, err)
				}
			}
			time.Sleep(300 * time.Millisecond) // in a bubble
		}
		// Each read is two calls.
		most := requestsPerSecond*8/10*int64(lasts/time.Second) + requestsAtOnce/2
		if calls := 2 * count.Load(); calls > most || calls < most/2 {
			t.Errorf("reads-pace: %d calls in %v, want at most %d", calls, lasts, most)
		}
		time.Sleep(time.Minute) // in a bubble
		s.wait()
	})
}

// Names that callers invent take none of the entries of names that exist.
func TestInventedNamesForgetNoOther(t *testing.T) {
	s := newReadCache[int](time.Now, nil)
	reads := map[string]int{}
	get := func(name string) {
		_, _ = s.get(t.Context(), stranger, name, func(error) bool { return true }, func(context.Context) (int, error) {
			if reads[name]++; name == "ns1" {
				return 1, nil
			}
			return 0, errors.New("not found")
		})
	}
	get("ns1")
	for n := range 2 * maxCached {
		get(fmt.Sprint("x", n))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, kept := s.entries["ns1"]; !kept || len(s.entries) > maxCached {
		t.Errorf("forgotten-for-invented: kept is %v, of %d entries", kept, len(s.entries))
	}
}
