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
