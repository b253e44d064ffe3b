package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/raftstore"
)

// fakeLog is a log whose leadership the test moves.
type fakeLog struct {
	mu    sync.Mutex
	role  raftstore.Role
	next  chan struct{}
	state *fsm.State
	index uint64
	bell  chan struct{}
	err   error // of Lead
}

func newFakeLog() *fakeLog {
	return &fakeLog{next: make(chan struct{}), bell: make(chan struct{}), state: fsm.New()}
}

func (l *fakeLog) Role() (raftstore.Role, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.role, l.next
}

func (l *fakeLog) notice(leader bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.role = raftstore.Role{Leader: leader, Change: l.role.Change + 1, Since: time.Now()}
	close(l.next)
	l.next = make(chan struct{})
}

func (l *fakeLog) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.bell
}

func (l *fakeLog) apply(c fsm.Command) fsm.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	data, err := fsm.Encode(fsm.Header{}, c)
	if err != nil {
		panic(err)
	}
	res := l.state.Apply(fsm.Entry{Index: l.index, Term: 1, Data: data})
	close(l.bell)
	l.bell = make(chan struct{})
	return res
}

func (l *fakeLog) Lead(_ context.Context, lead fsm.Lead) (Tenure, error) {
	if l.err != nil {
		return nil, l.err
	}
	return &fakeTenure{token: l.apply(lead).Token}, nil
}

type fakeTenure struct {
	token        fencing.Token
	ready, ended bool
}

func (r *fakeTenure) Token() fencing.Token { return r.token }
func (r *fakeTenure) Propose(context.Context, fsm.Command) (fsm.Result, error) {
	return fsm.Result{}, nil
}
func (r *fakeTenure) Confirm(context.Context, time.Time) error { return nil }
func (*fakeTenure) Succeeds(uint64, uint64) (time.Time, bool)  { return time.Time{}, false }
func (*fakeTenure) Configured() uint64                         { return 0 }
func (r *fakeTenure) SetReady()                                { r.ready = true }
func (r *fakeTenure) End()                                     { r.ended = true }

// stage runs a runner and notes what happens, in order.
type stage struct {
	log    *fakeLog
	mu     sync.Mutex
	events []string
	fit    func() error // nil: fit
	yield  func() error // of StepDown
	barred func() error // nil: never
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *stage) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// duty starts, and stops after its context ended and lag passed.
func (s *stage) duty(name string, lag time.Duration, early <-chan struct{}) Duty {
	return Task(name, func(ctx context.Context) error {
		s.note("start %s", name)
		select {
		case <-ctx.Done():
		case <-early:
			return errors.New("gave up")
		}
		time.Sleep(lag) // in a bubble
		s.note("stop %s", name)
		return nil
	})
}

func (s *stage) run(t *testing.T, duties ...Duty) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	r := NewRunner(Options{
		Barred: func() error {
			if s.barred != nil {
				return s.barred()
			}
			return nil
		},
		Abdicate: func(context.Context) {
			s.note("abdicate")
			s.log.notice(false)
		},
		Log: s.log, Lead: fsm.Lead{Peer: "h1", Boot: "b"}, Duties: duties,
		Fit: func() error {
			if s.fit != nil {
				return s.fit()
			}
			return nil
		},
		StepDown: func(context.Context) error {
			s.note("step down")
			if s.yield != nil {
				return s.yield()
			}
			return errors.New("nobody is there")
		},
		Exit:   func(code int, why error) { s.note("exit %d", code) },
		Logger: slog.New(slog.DiscardHandler),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

func TestDutiesStartInOrderAndStopInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: newFakeLog()}
		stop := s.run(t, s.duty("a", 0, nil), s.duty("b", 0, nil), s.duty("gate", 0, nil))
		s.log.notice(true)
		synctest.Wait()
		s.log.notice(false)
		synctest.Wait()
		stop()
		got := s.seen()
		slices.Sort(got[:3]) // they start one after the other, and run at once
		want := []string{"start a", "start b", "start gate", "stop gate", "stop b", "stop a"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestLameDuckEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: newFakeLog()}
		stop := s.run(t, s.duty("slow", StopLimit+time.Second, nil))
		s.log.notice(true)
		synctest.Wait()
		s.log.notice(false)
		time.Sleep(StopLimit + time.Millisecond) // in a bubble
		synctest.Wait()
		if got := s.seen(); !slices.Contains(got, "exit 75") {
			t.Errorf("a duty ran on for %v after leadership ended and the process lives: %v", StopLimit, got)
		}
		time.Sleep(2 * time.Second) // in a bubble
		stop()
	})
}

func TestSlowDutyWithinTheLimitIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: newFakeLog()}
		stop := s.run(t, s.duty("slow", StopLimit-time.Millisecond, nil))
		s.log.notice(true)
		synctest.Wait()
		s.log.notice(false)
		s.log.notice(true)        // regained at once: the old duty must end first
		time.Sleep(2 * StopLimit) // in a bubble
		want := []string{"start slow", "stop slow", "start slow"}
		if got := s.seen(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		stop()
	})
}

func TestLeaderThatCannotEstablishGivesUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		yield bool
		want  string
	}{
		{"handed on", true, "step down"},
		{"no peer takes it", false, "exit 75"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{log: newFakeLog()}
				s.log.err = errors.New("barrier")
				s.yield = func() error {
					if !c.yield {
						return errors.New("nobody is there")
					}
					s.log.notice(false)
					return nil
				}
				stop := s.run(t)
				s.log.notice(true)
				time.Sleep(giveUpLimit + time.Second) // in a bubble
				got := s.seen()
				if len(got) < 1 || !slices.Contains(got, c.want) {
					t.Errorf("got %v, want %q among it", got, c.want)
				}
				if c.yield && slices.Contains(got, "exit 75") {
					t.Errorf("the process ended although another leads: %v", got)
				}
				s.log.notice(false)
				stop()
			})
		})
	}
}

func TestRestoredStateEstablishesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: newFakeLog()}
		stop := s.run(t, s.duty("a", 0, nil))
		s.log.notice(true)
		synctest.Wait()
		s.log.apply(fsm.Lead{Peer: "h1", Boot: "somebody else's"})
		time.Sleep(time.Second) // in a bubble
		want := []string{"start a", "stop a", "start a"}
		if got := s.seen(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		stop()
	})
}

func TestDutyThatEndsEarlyEndsTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := make(chan struct{})
		s := &stage{log: newFakeLog()}
		s.yield = func() error { s.log.notice(false); return nil }
		stop := s.run(t, s.duty("a", 0, nil), s.duty("b", 0, early))
		s.log.notice(true)
		synctest.Wait()
		close(early)
		time.Sleep(time.Second) // in a bubble
		if got := s.seen(); !slices.Contains(got, "stop a") || !slices.Contains(got, "step down") {
			t.Errorf("a duty gave up and the leadership goes on: %v", got)
		}
		stop()
	})
}

// The other duties learn which one gave up, and nothing if leadership moved.
func TestDutiesLearnWhyTheyEnd(t *testing.T) {
	for _, c := range []struct {
		fails bool
		want  string
	}{{true, "duty b ended early: gave up"}, {false, "context canceled"}} {
		synctest.Test(t, func(t *testing.T) {
			early := make(chan struct{})
			s := &stage{log: newFakeLog()}
			s.yield = func() error { s.log.notice(false); return nil }
			ended := make(chan error, 1)
			a := Task("a", func(ctx context.Context) error {
				<-ctx.Done() // in a bubble
				ended <- context.Cause(ctx)
				return nil
			})
			stop := s.run(t, a, s.duty("b", 0, early))
			s.log.notice(true)
			synctest.Wait()
			if c.fails {
				close(early)
			} else {
				s.log.notice(false)
			}
			if why := <-ended; why == nil || why.Error() != c.want { // in a bubble
				t.Errorf("a duty was ended because of %v, want %q", why, c.want)
			}
			stop()
		})
	}
}

func TestUnfitPeerLeadsWhenNoOtherWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: newFakeLog(), fit: func() error { return errors.New("its clock is wrong") }}
		stop := s.run(t, s.duty("a", 0, nil))
		s.log.notice(true)
		time.Sleep(time.Second) // in a bubble
		want := []string{"step down", "start a"}
		if got := s.seen(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v: a doubtful leader is better than none", got, want)
		}
		stop()
	})
}

func TestPassedUnfitnessEndsNoProcess(t *testing.T) {
	for name, leadsAlready := range map[string]bool{"before it led": false, "while it led": true} {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{log: newFakeLog()}
			var wrong atomic.Bool
			s.fit = func() error {
				if wrong.Load() {
					return errors.New("Ironic is away")
				}
				return nil
			}
			s.yield = func() error { wrong.Store(false); return errors.New("nobody took it") }
			stop := s.run(t, s.duty("a", 0, nil))
			want := []string{"step down", "start a"}
			if leadsAlready {
				s.log.notice(true)
				synctest.Wait()
				want = []string{"start a", "stop a", "step down", "start a"}
			}
			wrong.Store(true)
			if !leadsAlready {
				s.log.notice(true)
			}
			time.Sleep(time.Minute) // in a bubble
			if got := s.seen(); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
			stop()
		})
	}
}
