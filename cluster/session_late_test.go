package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// lateLog shows a state of the release before until it has been asked a few times: that
// of a peer that has yet to apply the entry that raised the log version.
type lateLog struct {
	*scriptedLog
	before fsm.View
	late   int
}

func (l *lateLog) Changed() (fsm.View, <-chan struct{}) {
	if l.late--; l.late >= 0 {
		return l.before, nil
	}
	return l.scriptedLog.Changed()
}

// A peer that announces the version of a state that is behind the log's is refused, and is
// not outdated: it stays, and opens its session when it has caught up. One whose program
// knows no more is told, and stops.
func TestLateStateIsNotAnOutdatedProgram(t *testing.T) {
	for _, knows := range []int{fsm.Version, fsm.Version - 1} {
		synctest.Test(t, func(t *testing.T) {
			before, err := fsm.Founded(fsm.Found{
				ClusterID: "5f0c1f3e-0000-4000-8000-000000000001",
				CACert:    []byte("-----BEGIN X-----"), CAKey: []byte("-----BEGIN X-----"), GossipKey: make([]byte, 32),
				Member: membership.Member{ID: "h1", Name: "h1", Address: "h1:7350", Version: fsm.Version - 1},
			}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			log := &lateLog{scriptedLog: newScriptedLog(t), before: before.View(), late: 3}
			told := 0
			s := NewSession(SessionOptions{
				Log: log, Self: Self{Peer: "h1", Boot: "b1", Knows: knows}, Wall: time.Now, Random: rand.Reader,
				Refuses: func() error { return nil }, NoIronic: func() bool { return false },
				Removed:  func() { t.Error("the peer was told that it is removed") },
				Outdated: func(err error) { told++ }, RolledBack: func(err error) { t.Error(err) },
				Logger: slog.New(slog.DiscardHandler),
			})
			for range 3 {
				if err := s.open(context.Background(), time.Now()); err == nil || !errors.Is(err, fsm.Outdated) {
					t.Errorf("with a late state a session is opened: %v", err)
				}
			}
			if err := s.open(context.Background(), time.Now()); (err == nil) != (knows == fsm.Version) {
				t.Errorf("the state is the log's, the program knows %d: %v", knows, err)
			}
			if stops := told > 0; stops != (knows < fsm.Version) {
				t.Errorf("late-is-not-outdated: the program knows %d, and was told %d times that it is outdated", knows, told)
			}
		})
	}
}

// slowLog takes the first opening of a session only when the test says so: its sender has
// given it up by then.
type slowLog struct {
	*scriptedLog
	first func() // nil before it was sent
}

func (l *slowLog) Propose(ctx context.Context, h fsm.Header, c fsm.Command) (fsm.Result, error) {
	if _, opens := c.(membership.OpenSession); opens && l.first == nil {
		l.first = func() { _, _ = l.scriptedLog.Propose(ctx, h, c) } // nobody waits for the answer
		return fsm.Result{}, logerr.ErrOutcomeUnknown
	}
	return l.scriptedLog.Propose(ctx, h, c)
}

// A peer whose first request for a session is given up, and arrives when it works in its
// next session, still has that one.
func TestLateOpeningLeavesTheSessionThatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &slowLog{scriptedLog: newScriptedLog(t)}
		s := NewSession(SessionOptions{
			Log: log, Self: Self{Peer: "h1", Boot: "b1", Knows: fsm.Version}, Wall: time.Now, Random: rand.Reader,
			Refuses: func() error { return nil }, NoIronic: func() bool { return false },
			Removed:  func() { t.Error("the peer was told that it is removed") },
			Outdated: func(err error) { t.Error(err) }, RolledBack: func(err error) { t.Error(err) },
			Logger: slog.New(slog.DiscardHandler),
		})
		for range 2 {
			_ = s.open(t.Context(), time.Now()) // the first is given up
		}
		if s.ID().IsZero() {
			t.Fatal("no session was opened")
		}
		log.first()
		v, _ := log.Changed()
		if now, _ := v.SessionOf("h1"); now.ID != s.ID() {
			t.Errorf("late-opening: the peer works in session %v, and the log has %v", s.ID(), now.ID)
		}
	})
}

// A process that does not know of the session that the log has of its peer, such as that of
// an earlier process, learns of it from the refusal and takes its place.
func TestOpeningTakesThePlaceOfAnUnknownSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newScriptedLog(t)
		log := &lateLog{scriptedLog: newScriptedLog(t), before: before.state.View(), late: 1}
		log.apply(t, membership.OpenSession{Peer: "h1", Boot: "b0", Version: fsm.Version})
		s := NewSession(SessionOptions{
			Log: log, Self: Self{Peer: "h1", Boot: "b1", Knows: fsm.Version}, Wall: time.Now, Random: rand.Reader,
			Removed:  func() { t.Error("the peer was told that it is removed") },
			Outdated: func(err error) { t.Error(err) }, RolledBack: func(err error) { t.Error(err) },
			Logger: slog.New(slog.DiscardHandler),
		})
		if err := s.open(t.Context(), time.Now()); err != nil || s.ID().IsZero() {
			t.Errorf("no session is opened: %v", err)
		}
	})
}
