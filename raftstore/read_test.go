package raftstore

import (
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/raftguard"
	"github.com/trivet-ha/trivet/test/testwait"
)

// busyMachine applies nothing until it is let.
type busyMachine struct{ let chan struct{} }

func (m busyMachine) Apply(*raft.Log) any {
	_, err := testwait.Take(testwait.Limit, m.let, "the test lets the machine go on")
	return err
}
func (busyMachine) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (busyMachine) Restore(io.ReadCloser) error         { return nil }

// begin starts the raft of a store that is the only voter, and waits until it leads.
func begin(t *testing.T, s *Store, machine raft.FSM, snapshots raft.SnapshotStore) {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID, conf.LogOutput = "a", io.Discard
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond,
		50*time.Millisecond
	address, transport := raft.NewInmemTransport("a")
	stable, voters := raft.NewInmemStore(), raft.Configuration{Servers: []raft.Server{{ID: "a", Address: address}}}
	err := raft.BootstrapCluster(conf, s.log, stable, snapshots, transport, voters)
	if err == nil {
		s.raft, err = raft.NewRaft(conf, machine, s.log, stable, snapshots, transport)
	}
	if err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, s.raft.LeaderCh(), "leadership")
}

// TestReadersWaitForWhatOthersMayHaveShown: a follower may apply what its leader is
// still busy applying. Entries that no machine sees are not waited for.
func TestReadersWaitForWhatOthersMayHaveShown(t *testing.T) {
	machine := busyMachine{make(chan struct{})}
	own := newMachine(t.Context(), func(err error) { t.Error(err) })
	s := &Store{machine: own, views: own.views, log: raftguard.NewLog(raft.NewInmemStore())}
	l := &Leadership{store: s}
	begin(t, s, machine, raft.NewInmemSnapshotStore())
	defer func() {
		if err := s.raft.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	}()
	applied := s.raft.Apply([]byte("command"), 0)
	testwait.Until(t, "the command is committed", func() bool {
		return s.log.Command() != 0 && s.raft.CommitIndex() >= s.log.Command()
	})
	command := s.raft.CommitIndex()
	if got := l.decided(); got != command {
		t.Errorf("read-covers-what-is-committed: readers wait for entry %d, and %d is committed", got, command)
	}
	close(machine.let)
	if err := applied.Error(); err != nil {
		t.Fatal(err)
	}
	if err := s.raft.AddNonvoter("b", "nowhere", 0, 0).Error(); err != nil {
		t.Fatal(err)
	}
	if got := l.decided(); got != command || s.raft.CommitIndex() <= command {
		t.Errorf("readers wait for entry %d, which no machine sees; the newest command is %d", got, command)
	}
}
