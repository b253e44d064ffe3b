package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// scriptedLog answers proposals as the test says and applies what it accepts.
type scriptedLog struct {
	mu     sync.Mutex
	state  *fsm.State
	index  uint64
	script []error // one for each coming proposal that is no session's; nil: answer it
	lose   bool    // the next answer is lost after the command was applied
	seen   []fsm.Header
	// slow is how long each answer is on its way.
	slow time.Duration
	// refusal, if set, is the answer to every proposal.
	refusal error
}

func newScriptedLog(t *testing.T) *scriptedLog { return newScriptedLogOf(t, fsm.Version) }

// newScriptedLogOf is the log of a cluster with a log version in force.
func newScriptedLogOf(t *testing.T, version int) *scriptedLog {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001",
		CACert:    []byte("-----BEGIN X-----"), CAKey: []byte("-----BEGIN X-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "h1", Name: "h1", Address: "h1:7350", Version: version},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &scriptedLog{state: state, index: 1}
}

func (l *scriptedLog) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), nil
}

func (l *scriptedLog) Propose(_ context.Context, h fsm.Header, c fsm.Command) (fsm.Result, error) {
	defer time.Sleep(l.slow) // in a bubble
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal != nil {
		return fsm.Result{}, l.refusal
	}
	if !h.Request.IsZero() {
		l.seen = append(l.seen, h)
		if len(l.script) > 0 {
			err := l.script[0]
			l.script = l.script[1:]
			if err != nil {
				return fsm.Result{}, err
			}
		}
	}
	l.index++
	data, err := fsm.Encode(h, c)
	if err != nil {
		return fsm.Result{}, err
	}
	res := l.state.Apply(fsm.Entry{Index: l.index, Term: 1, Data: data})
	if l.lose && !h.Request.IsZero() {
		l.lose = false
		return fsm.Result{}, logerr.ErrOutcomeUnknown
	}
	return res, nil
}

// withSession runs f with a session that Run keeps open.
func withSession(t *testing.T, log *scriptedLog, f func(*Session)) {
	s := NewSession(SessionOptions{
		Log: log, Self: Self{Peer: "h1", Boot: "b1", Knows: fsm.Version}, Wall: time.Now, Random: rand.Reader,
		Refuses: func() error { return nil }, NoIronic: func() bool { return false }, Removed: func() {
			t.Error("the peer was told that it is removed")
		},
		Outdated: func(err error) { t.Error(err) }, RolledBack: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	synctest.Wait()
	f(s)
	stop()
	<-done
}

func TestLostAnswerIsAskedForUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			log.lose = true
			res, err := s.Do(t.Context(), "", membership.AddJoinToken{ID: "a", Hash: [32]byte{1}, TTL: time.Hour})
			if err != nil || res.Code != fsm.OK || !res.Repeated {
				t.Errorf("got %+v, %v: want the first result, repeated", res, err)
			}
			if len(log.seen) != 2 || log.seen[0].Request != log.seen[1].Request {
				t.Errorf("the repeat has another request ID: %v", log.seen)
			}
		})
	})
}

func TestRefusedProposalsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			log.script = []error{logerr.ErrNoLeader, logerr.ErrNotLeader, logerr.ErrBusy, nil}
			res, err := s.Do(t.Context(), "", settings.PutSetting{Key: "k", Value: "v"})
			if err != nil || res.Code != fsm.OK {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	})
}

func TestWithoutALeaderTheCallerIsToldAfterTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			log.script = slices.Repeat([]error{logerr.ErrNoLeader}, 1000)
			began := time.Now()
			_, err := s.Do(t.Context(), "", settings.PutSetting{Key: "k", Value: "v"})
			if !errors.Is(err, logerr.ErrNoLeader) {
				t.Errorf("got %v, want ErrNoLeader", err)
			}
			// A pause that would outlast the hold is not begun.
			if took := time.Since(began); took < leaderHold-2*retryMost || took > leaderHold {
				t.Errorf("it took %v, not %v", took, leaderHold)
			}
			want := "its time of 7s is over"
			if !strings.Contains(fmt.Sprint(err), want) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("budget-is-named: %v, want %q", err, want)
			}
		})
	})
}

func TestOutcomeThatIsNeverLearntIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			log.script = slices.Repeat([]error{logerr.ErrOutcomeUnknown}, 1000)
			_, err := s.Do(t.Context(), "", settings.PutSetting{Key: "k", Value: "v"})
			if !errors.Is(err, logerr.ErrOutcomeUnknown) {
				t.Errorf("got %v, want ErrOutcomeUnknown", err)
			}
		})
	})
}

// After its session ended a request of unknown outcome must not be tried anew:
// the table that would recognise it is gone.
func TestUnknownOutcomeIsNotRepeatedInAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			log.script = []error{logerr.ErrOutcomeUnknown}
			old := s.ID()
			log.apply(t, membership.EndSession{Session: old})
			_, err := s.Do(t.Context(), "", settings.PutSetting{Key: "k", Value: "v"})
			if !errors.Is(err, logerr.ErrOutcomeUnknown) {
				t.Errorf("got %v, want ErrOutcomeUnknown", err)
			}
			for _, h := range log.seen {
				if h.Session != old {
					t.Errorf("the request was proposed again in session %v", h.Session)
				}
			}
		})
	})
}

func TestEndedSessionIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			old := s.ID()
			if old.IsZero() {
				t.Fatal("no session")
			}
			log.apply(t, membership.EndSession{Session: old})
			time.Sleep(2 * renewEvery) // in a bubble
			if now := s.ID(); now.IsZero() || now == old {
				t.Errorf("the session is %v, it was %v", now, old)
			}
			if left := time.Until(s.Deadline()); left <= 0 || left > membership.SessionTTL-workMargin {
				t.Errorf("work may go on for %v", left)
			}
		})
	})
}

// TestSessionCountsFromWhenItWasAskedFor: the log may have opened or renewed the session
// right after the question, so that a worker that counted from the answer would act for
// as long after its margin as the answer took.
func TestSessionCountsFromWhenItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = renewLimit - 100*time.Millisecond
		log := newScriptedLog(t)
		log.slow = slow
		began := time.Now()
		withSession(t, log, func(s *Session) {
			for n, sent := range []time.Duration{0, slow + renewEvery, 2 * (slow + renewEvery)} {
				time.Sleep(time.Until(began.Add(sent + slow + time.Millisecond))) // in a bubble
				if ends := s.Deadline().Sub(began); ends != sent+membership.SessionTTL-workMargin {
					t.Errorf("session-counts-from-the-question: %d: asked for at %v and answered %v later, work ends at %v", n, sent,
						slow, ends)
				}
			}
		})
	})
}

func (l *scriptedLog) apply(t *testing.T, c fsm.Command) {
	t.Helper()
	res, err := l.Propose(t.Context(), fsm.Header{}, c)
	if err != nil || res.Err() != nil {
		t.Fatal(err, res.Err())
	}
}

func TestAnsweredIsTheLowestRequestThatWaits(t *testing.T) {
	r := newRequests(rand.Reader)
	first, _, doneFirst, err := r.mintID(0)
	if err != nil {
		t.Fatal(err)
	}
	second, answered, doneSecond, _ := r.mintID(0)
	if answered != first || !first.Less(second) {
		t.Errorf("answered is %v while %v waits; the second is %v", answered, first, second)
	}
	doneSecond()
	doneFirst()
	third, answered, done, _ := r.mintID(0)
	if answered != third {
		t.Errorf("answered is %v, not the new request %v", answered, third)
	}
	done()
}

// A command of a newer log version is refused before any leader is asked, so that its
// outcome is known: an older leader could not read it.
func TestNewerCommandReachesNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLogOf(t, 1) // which knows no certificates of operators
		withSession(t, log, func(s *Session) {
			_, err := s.Do(t.Context(), "", operators.NoteOperator{Name: "ann", Issued: 1, Ends: 2})
			if !errors.Is(err, fsm.Refused) || len(log.seen) != 0 {
				t.Errorf("newer-command: %v, after %d proposals, want it refused before one", err, len(log.seen))
			}
		})
	})
}

// What a worker says in its session is repeated for as long as that lives, and
// ends with it whatever was unknown by then.
func TestDoInASession(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []error
		end    bool // the session, before the call
		want   error
	}{
		{"no leader for a minute", slices.Repeat([]error{logerr.ErrNoLeader}, 1200), false, nil},
		{"lost answers", slices.Repeat([]error{logerr.ErrOutcomeUnknown}, 1200), false, nil},
		{"ended", nil, true, fsm.SessionEnded},
		{"ended, no leader at first", []error{logerr.ErrNoLeader}, true, fsm.SessionEnded},
		{"ended after a lost answer", []error{logerr.ErrOutcomeUnknown}, true, fsm.SessionEnded},
		{"closed", []error{logerr.ErrClosed}, false, logerr.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newScriptedLog(t)
				withSession(t, log, func(s *Session) {
					log.script = c.script
					old := s.ID()
					if c.end {
						log.apply(t, membership.EndSession{Session: old})
					}
					res, err := s.DoIn(t.Context(), old, settings.PutSetting{Key: "k", Value: "v"})
					if !errors.Is(err, c.want) || err == nil && res.Code != fsm.OK {
						t.Errorf("%+v, %v, want %v", res, err, c.want)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					log.script = slices.Repeat([]error{logerr.ErrNoLeader}, 1000)
					began := time.Now()
					if _, err := s.DoIn(ctx, s.ID(), settings.PutSetting{Key: "k", Value: "v"}); err == nil ||
						time.Since(began) > time.Second {
						t.Errorf("its context ended: %v after %v", err, time.Since(began))
					}
				})
			})
		})
	}
}

// A worker whose time ends while an outcome is unknown hears that it is unknown, not that
// its session has ended: it would give up what it may have done.
func TestDoInWhoseTimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		withSession(t, log, func(s *Session) {
			log.script = slices.Repeat([]error{logerr.ErrOutcomeUnknown}, 1000)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.DoIn(ctx, s.ID(), settings.PutSetting{Key: "k", Value: "v"})
			unknown := errors.Is(err, logerr.ErrOutcomeUnknown) && errors.Is(err, context.DeadlineExceeded)
			if !unknown || errors.Is(err, fsm.SessionEnded) {
				t.Errorf("unknown-not-ended: %v", err)
			}
		})
	})
}

// A session that is over and not opened anew is no success.
func TestEndedSessionIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		s := NewSession(SessionOptions{Log: log, Random: rand.Reader}) // Run does not renew it
		res, err := log.Propose(t.Context(), fsm.Header{},
			membership.OpenSession{Peer: "h1", Boot: "b1", Version: fsm.Version})
		if err != nil || res.Err() != nil {
			t.Fatal(err, res.Err())
		}
		s.set(res.Token, time.Now())
		log.apply(t, membership.EndSession{Session: res.Token})
		began := time.Now()
		if res, err := s.Do(t.Context(), "", settings.PutSetting{Key: "k", Value: "v"}); err == nil ||
			time.Since(began) > leaderHold+time.Second {
			t.Errorf("%+v, %v after %v", res, err, time.Since(began))
		}
	})
}

// A peer that the cluster does not know any more hears of it when it opens its
// session: from the leader's port, or, where the log itself refuses, from the log.
func TestRemovedPeerIsToldAtItsSession(t *testing.T) {
	for name, c := range map[string]struct {
		peer    string
		err     error
		removed bool
	}{
		"the leader's port refuses": {"h1", fmt.Errorf("%w: peer h1 was removed", ErrNotMember), true},
		"the log refuses":           {"gone", nil, true},
		"no leader":                 {"h1", logerr.ErrNoLeader, false},
	} {
		t.Run(name, func(t *testing.T) {
			log := newScriptedLog(t)
			log.refusal = c.err
			told := 0
			s := NewSession(SessionOptions{Log: log, Self: Self{Peer: c.peer, Boot: "b1", Knows: fsm.Version},
				Wall: time.Now, Random: rand.Reader,
				Removed: func() { told++ }, Logger: slog.New(slog.DiscardHandler)})
			if err := s.renewOnce(t.Context()); err == nil || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("the session was opened: %v", err)
			}
			if (told > 0) != c.removed {
				t.Errorf("removed-is-told: %d times, and its session ended with %v", told, c.err)
			}
		})
	}
}

// readLog is a log that is read where it is written.
type readLog struct{ *scriptedLog }

func (l readLog) View() fsm.View                         { v, _ := l.Changed(); return v }
func (l readLog) Read(context.Context) (fsm.View, error) { return l.View(), nil }

// A peer announces no log version that its binary does not know, and each that it does.
func TestPeerAnnouncesWhatItKnows(t *testing.T) {
	for knows, want := range map[int]int{fsm.Version - 1: fsm.Version - 1, fsm.Version: fsm.Version} {
		log := readLog{newScriptedLogOf(t, fsm.Version-1)}
		s := NewSession(SessionOptions{Log: log, Self: Self{Peer: "h1", Boot: "b1", Knows: knows}, Wall: time.Now,
			Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)})
		if err := s.renewOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := s.Announce(t.Context(), log, fsm.Version)
		if m, _ := log.View().Member("h1"); m.Version != want || (err == nil) != (want == fsm.Version) {
			t.Errorf("announces-what-it-knows: with log version %d it announces %d: %v", knows, m.Version, err)
		}
	}
}
