package raftstore

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// A proof ends with this peer's own acknowledgement. A leadership that was over by then,
// whether raft stepped down or the handle was ended, proves nothing, though a majority of
// the others has acknowledged it and no newer term has begun, and a later leader is told
// of no acknowledgement.
func TestOwnAcknowledgementNeedsLeadership(t *testing.T) {
	for how, over := range map[string]func(*Leadership) error{
		"the handle was ended": func(l *Leadership) error { l.ended.Store(true); return nil },
		"raft stepped down":    func(l *Leadership) error { return l.store.raft.Shutdown().Error() },
	} {
		var now time.Duration
		s := &Store{log: raftguard.NewLog(raft.NewInmemStore())}
		s.voter = voter{raftguard.NewGate(func() time.Duration { return now })}
		begin(t, s, busyMachine{}, raft.NewInmemSnapshotStore())
		l := &Leadership{store: s, term: s.raft.CurrentTerm()}
		if err := l.acknowledge(); err != nil {
			t.Errorf("own-acknowledgement: a leader does not acknowledge itself: %v", err)
		}
		now = time.Minute
		if err := over(l); err != nil {
			t.Fatal(err)
		}
		if err := l.acknowledge(); !errors.Is(err, logerr.ErrNotLeader) {
			t.Errorf("own-acknowledgement: %s: it acknowledged itself all the same: %v", how, err)
		}
		s.gate.Raise(l.term + 1)
		if age, err := s.gate.Age(l.term + 1); err != nil || age != now {
			t.Errorf("own-acknowledgement: %s: a later leader is told of one %v ago, %v", how, age, err)
		}
		if err := s.raft.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	}
}
