package batcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rig is a batcher whose batches wait until the test lets them go, one at a time.
type rig struct {
	*Batcher[string, string]
	sent    chan []string // the requests of each batch that left
	release chan struct{}
	ended   chan error // why a batch that was abandoned ended
	stop    context.CancelFunc
}

// newRig has batches of three calls and ten bytes. It runs in a bubble.
func newRig(t *testing.T, set func(*Options[string, string])) *rig {
	t.Helper()
	life, stop := context.WithCancel(t.Context())
	r := &rig{sent: make(chan []string, 64), release: make(chan struct{}), ended: make(chan error, 64), stop: stop}
	o := Options[string, string]{
		Send: r.send, Context: life, Parallel: 1, MaxCalls: 3, MaxWaiting: 8,
		Size: func(s string) int { return len(s) }, MaxSize: 10,
	}
	if set != nil {
		set(&o)
	}
	r.Batcher = New(o)
	t.Cleanup(stop)
	return r
}

func (r *rig) send(ctx context.Context, calls []*Call[string, string]) {
	var requests []string
	for _, c := range calls {
		requests = append(requests, c.Request)
	}
	r.sent <- requests
	select {
	case <-r.release:
	case <-ctx.Done():
		r.ended <- ctx.Err()
	}
	for _, c := range calls {
		c.Response, c.Err = strings.ToUpper(c.Request), ctx.Err()
	}
}

// batches returns the requests of the batches that left since the last look.
func (r *rig) batches() (all [][]string) {
	synctest.Wait()
	for {
		select {
		case requests := <-r.sent:
			all = append(all, requests)
		default:
			return all
		}
	}
}

// outcome is the end of a call.
type outcome struct {
	response string
	err      error
}

func (r *rig) do(ctx context.Context, request string) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		response, err := r.Do(ctx, request)
		out <- outcome{response, err}
	}()
	synctest.Wait() // calls come in the order of the test
	return out
}

func same(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) }

func TestCallsGatherWhileABatchIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var outcomes []<-chan outcome
		for _, q := range []string{"a", "b", "c", "d", "e", "1234567", "890", "1"} {
			outcomes = append(outcomes, r.do(t.Context(), q))
		}
		if got := r.batches(); !same(got, [][]string{{"a"}}) {
			t.Fatalf("join-late: under way: %q; a call that waits must not join a batch that left", got)
		}
		var rest [][]string
		for range 4 {
			r.release <- struct{}{}
			rest = append(rest, r.batches()...)
		}
		if want := [][]string{{"b", "c", "d"}, {"e", "1234567"}, {"890", "1"}}; !same(rest, want) {
			t.Errorf("then %q, want %q: three calls and ten bytes a batch", rest, want)
		}
		for i, q := range []string{"A", "B", "C", "D", "E", "1234567", "890", "1"} {
			if got := <-outcomes[i]; got.response != q || got.err != nil {
				t.Errorf("response %d is %q, %v", i, got.response, got.err)
			}
		}
		r.Close()
	})
}

func TestLargeCallTravelsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for _, q := range []string{"a", "longer than ten", "b", "c"} {
			r.do(t.Context(), q)
		}
		r.release <- struct{}{}
		r.release <- struct{}{}
		r.release <- struct{}{}
		if got, want := r.batches(), [][]string{{"a"}, {"longer than ten"}, {"b", "c"}}; !same(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		r.Close()
	})
}

func TestTwoBatchesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options[string, string]) { o.Parallel = 2 })
		for _, q := range []string{"a", "b", "c", "d"} {
			r.do(t.Context(), q)
		}
		if got := r.batches(); !same(got, [][]string{{"a"}, {"b"}}) {
			t.Errorf("under way: %q", got)
		}
		r.release <- struct{}{}
		if got := r.batches(); !same(got, [][]string{{"c", "d"}}) {
			t.Errorf("then %q", got)
		}
		r.stop()
		r.Close()
	})
}

// A call whose client gives up before it left is not sent; afterwards its outcome is
// unknown.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		why := errors.New("the client went away")
		first, give := context.WithCancelCause(t.Context())
		one := r.do(first, "one")
		second, giveToo := context.WithCancelCause(t.Context())
		two := r.do(second, "two")
		three := r.do(t.Context(), "three")

		giveToo(why)
		if got := <-two; !errors.Is(got.err, ErrWithdrawn) || !errors.Is(got.err, why) {
			t.Errorf("withdrawn: %v, want ErrWithdrawn and the cause", got.err)
		}
		r.batches()
		give(why)
		if got := <-one; !errors.Is(got.err, why) || errors.Is(got.err, ErrWithdrawn) {
			t.Errorf("given up under way: %v, want the cause alone", got.err)
		}
		if err := <-r.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a batch that no client waits for ended with %v", err)
		}
		if got := r.batches(); !same(got, [][]string{{"three"}}) {
			t.Errorf("withdrawn-sent: then %q; what was withdrawn must not be sent", got)
		}
		r.release <- struct{}{}
		if got := <-three; got.response != "THREE" || got.err != nil {
			t.Errorf("%q, %v", got.response, got.err)
		}
		r.Close()
	})
}

// A batch goes on while one client waits for it.
func TestOneOfTwoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.do(t.Context(), "a")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b, c := r.do(short, "b"), r.do(t.Context(), "c")
		r.release <- struct{}{}
		if got := <-b; !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("b: %v", got.err)
		}
		synctest.Wait()
		if len(r.ended) > 0 {
			t.Fatalf("shared: the batch of c ended with b: %v", <-r.ended)
		}
		r.release <- struct{}{}
		if got := <-c; got.response != "C" || got.err != nil {
			t.Errorf("c: %q, %v", got.response, got.err)
		}
		r.Close()
	})
}

// A detached batcher sends what its clients no longer wait for.
func TestDetachedCallsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options[string, string]) { o.Detached = true })
		ctx, cancel := context.WithCancel(t.Context())
		a, b := r.do(ctx, "a"), r.do(ctx, "b")
		cancel()
		for _, o := range []<-chan outcome{a, b} {
			if got := <-o; !errors.Is(got.err, context.Canceled) || errors.Is(got.err, ErrWithdrawn) {
				t.Errorf("%v, want the cause alone: the call is sent", got.err)
			}
		}
		r.release <- struct{}{}
		if got, want := r.batches(), [][]string{{"a"}, {"b"}}; !same(got, want) {
			t.Errorf("detached: %q was sent, want %q", got, want)
		}
		r.release <- struct{}{}
		synctest.Wait()
		if len(r.ended) > 0 {
			t.Errorf("a detached batch was ended: %v", <-r.ended)
		}
		r.Close()
	})
}

func TestBatchesWaitForMoreCalls(t *testing.T) {
	delayed := func(o *Options[string, string]) {
		o.Delay, o.Enough = func() time.Duration { return 50 * time.Millisecond }, 2
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, delayed)
		began := time.Now()
		r.do(t.Context(), "a")
		if got := r.batches(); got != nil {
			t.Fatalf("%q left at once", got)
		}
		if got := <-r.sent; !slices.Equal(got, []string{"a"}) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("delay: %q left after %v, want a after 50ms", got, time.Since(began))
		}
		r.do(t.Context(), "b")
		r.do(t.Context(), "c")
		r.release <- struct{}{}
		began = time.Now()
		if got := <-r.sent; !slices.Equal(got, []string{"b", "c"}) || time.Since(began) != 0 {
			t.Errorf("enough: %q left after %v, want b and c at once", got, time.Since(began))
		}
		began = time.Now()
		r.do(t.Context(), "d")
		r.release <- struct{}{}
		if got := <-r.sent; !slices.Equal(got, []string{"d"}) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("d left after %v, want 50ms: the signal belonged to the batch before", time.Since(began))
		}
		r.release <- struct{}{}
		r.Close()
	})
}

func TestWaitingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options[string, string]) { o.MaxWaiting = 3 })
		r.do(t.Context(), "under way")
		for _, q := range []string{"a", "b"} {
			r.do(t.Context(), q)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.DoAll(short, "c", "d"); !errors.Is(err, ErrFull) {
			t.Errorf("two calls more than there is room for: %v", err)
		}
		c := r.do(t.Context(), "c")
		if got := <-r.do(short, "d"); !errors.Is(got.err, ErrFull) {
			t.Errorf("bound: the fourth that waits: %v", got.err)
		}
		r.release <- struct{}{}
		r.release <- struct{}{}
		if got := <-c; got.err != nil {
			t.Errorf("the third that waits: %v", got.err)
		}
		r.Close()
	})
}

func TestDoAllKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		go func() {
			for range 2 {
				r.release <- struct{}{}
			}
		}()
		got, err := r.DoAll(t.Context(), "a", "b", "c", "d")
		if want := []string{"A", "B", "C", "D"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if got, want := r.batches(), [][]string{{"a", "b", "c"}, {"d"}}; !same(got, want) {
			t.Errorf("in batches %q, want %q", got, want)
		}
		r.Close()
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a, b := r.do(t.Context(), "a"), r.do(t.Context(), "b")
		r.Close()
		for i, o := range []<-chan outcome{a, b} {
			if got := <-o; got.err == nil {
				t.Errorf("call %d was answered %q", i, got.response)
			}
		}
		if got := <-r.do(t.Context(), "c"); !errors.Is(got.err, ErrClosed) {
			t.Errorf("afterwards: %v", got.err)
		}
	})
}
