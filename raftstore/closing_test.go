package raftstore

import (
	"context"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/raftguard"
	"github.com/trivet-ha/trivet/test/testwait"
)

// heldSnapshots is a store of snapshots whose first bytes take until the store is closed.
type heldSnapshots struct {
	*raft.InmemSnapshotStore
	sink *heldSink
}

func (s heldSnapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	serversIndex uint64, net raft.Transport) (raft.SnapshotSink, error) {
	inner, err := s.InmemSnapshotStore.Create(version, index, term, servers, serversIndex, net)
	s.sink.SnapshotSink = inner
	return s.sink, err
}

type heldSink struct {
	raft.SnapshotSink
	began     chan struct{} // closed by the first write
	closing   <-chan struct{}
	writes    int
	cancelled bool
}

func (s *heldSink) Write(p []byte) (int, error) {
	if s.writes++; s.writes == 1 {
		close(s.began)
		if _, err := testwait.Take(testwait.Limit, s.closing, "the store is closed"); err != nil {
			return 0, err
		}
	}
	return s.SnapshotSink.Write(p)
}

func (s *heldSink) Cancel() error {
	s.cancelled = true
	return s.SnapshotSink.Cancel()
}

// A stop in the middle of a snapshot waits for no more of it than the bytes under way.
func TestCloseGivesASnapshotUp(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	own := newMachine(ctx, func(err error) { t.Error(err) })
	s := &Store{machine: own, views: own.views, log: raftguard.NewLog(raft.NewInmemStore()),
		slots: slots{taken: make(chan struct{}, maxInFlight)}, life: ctx, stop: stop}
	sink := &heldSink{began: make(chan struct{}), closing: ctx.Done()}
	begin(t, s, own, heldSnapshots{raft.NewInmemSnapshotStore(), sink})
	if err := s.raft.Barrier(0).Error(); err != nil { // something to cover
		t.Fatal(err)
	}

	taken := make(chan error, 1)
	go func() { taken <- s.Snapshot(context.Background()) }()
	testwait.Receive(t, sink.began, "the snapshot")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, taken, "the end of the snapshot"); err == nil {
		t.Error("stop-gives-up-a-snapshot: a snapshot that was given up was taken")
	}
	if sink.writes > 1 || !sink.cancelled {
		t.Errorf("stop-gives-up-a-snapshot: %d writes after the store was closed; cancelled: %v", sink.writes-1,
			sink.cancelled)
	}
}
