package simtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCall(t *testing.T) {
	asked := errors.New("refused by the callee")
	tests := []struct {
		name     string
		prepare  func(*pair)
		meanwh   func(*pair) // one second after the call began
		answer   error
		want     error
		executed int
		took     time.Duration
	}{
		{name: "answered", executed: 1, took: 2 * time.Millisecond},
		{name: "answered with an error", answer: asked, want: asked, executed: 1, took: 2 * time.Millisecond},
		{name: "request lost", prepare: func(p *pair) { p.net.SetLink("a", "b", Quality{Drop: 1}) },
			want: context.DeadlineExceeded, took: 3 * time.Second},
		{name: "reply lost", prepare: func(p *pair) { p.net.SetLink("b", "a", Quality{Drop: 1}) },
			want: context.DeadlineExceeded, executed: 1, took: 3 * time.Second},
		{name: "cut and mended", prepare: func(p *pair) { p.net.CutBoth("a", "b") },
			meanwh: func(p *pair) { p.net.HealAll() }, executed: 1, took: time.Second + time.Millisecond},
		{name: "cut", prepare: func(p *pair) { p.net.Cut("a", "b") },
			want: context.DeadlineExceeded, took: 3 * time.Second},
		{name: "callee paused and resumed", prepare: func(p *pair) { p.gateB.Pause() },
			meanwh: func(p *pair) { p.gateB.Resume() }, executed: 1, took: time.Second + time.Millisecond},
		{name: "caller paused and resumed", prepare: func(p *pair) { p.gateA.Pause() },
			meanwh: func(p *pair) { p.gateA.Resume() }, executed: 1, took: time.Second + 2*time.Millisecond},
		{name: "callee dead", prepare: func(p *pair) { p.b.sever() }, want: ErrRefused, took: time.Millisecond},
		{name: "callee dies", prepare: func(p *pair) { p.gateB.Pause() },
			meanwh: func(p *pair) { p.b.sever() }, want: ErrReset, took: time.Second},
		{name: "caller dies", prepare: func(p *pair) { p.gateB.Pause() },
			meanwh: func(p *pair) { p.a.sever() }, want: ErrReset, took: time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair()
				defer p.close()
				if test.prepare != nil {
					test.prepare(p)
				}
				if test.meanwh != nil {
					go func() {
						time.Sleep(time.Second)
						test.meanwh(p)
					}()
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				executed, start := 0, time.Now()
				v, err := Call(ctx, p.net, "a", "b", func(context.Context) (int, error) {
					executed++
					return 42, test.answer
				})
				if !errors.Is(err, test.want) || time.Since(start) != test.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(start), test.want, test.took)
				}
				if err == nil && v != 42 {
					t.Errorf("answer %d, not 42", v)
				}
				synctest.Wait()
				if executed != test.executed {
					t.Errorf("executed %d times, not %d", executed, test.executed)
				}
			})
		})
	}
}

// A client that is no host of the network can call, but nobody can call it.
func TestCallFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		hello := func(context.Context) (string, error) { return "hello", nil }
		if v, err := Call(t.Context(), p.net, "client", "a", hello); v != "hello" || err != nil {
			t.Errorf("from outside: %q, %v", v, err)
		}
		if _, err := Call(t.Context(), p.net, "a", "client", hello); !errors.Is(err, ErrRefused) {
			t.Errorf("to the outside: %v", err)
		}
	})
}

// The callee's work ends with the callee, not with the caller's timeout.
func TestCalleeOutlivesCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		ended := make(chan time.Time, 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := Call(ctx, p.net, "a", "b", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- time.Now()
			return 0, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		p.close()
		if took := (<-ended).Sub(start); took != 2*time.Second {
			t.Errorf("the callee worked for %v, not 2 s", took)
		}
	})
}
