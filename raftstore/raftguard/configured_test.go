package raftguard

import (
	"testing"

	"github.com/hashicorp/raft"
)

// The newest configuration is that of the log at start, of what is written, of a snapshot
// that is there, or of one that is taken or installed; an older one changes nothing.
func TestNewestConfigurationIsKnown(t *testing.T) {
	inner, kept := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	_, codec := raft.NewInmemTransport("a")
	put := func(log raft.LogStore, index uint64, kind raft.LogType) {
		t.Helper()
		if err := log.StoreLog(&raft.Log{Index: index, Term: 1, Type: kind}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(in raft.SnapshotStore, index, configured uint64) {
		t.Helper()
		sink, err := in.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, configured, codec)
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(NewLog(inner), 11, raft.LogConfiguration)
	put(NewLog(inner), 12, raft.LogCommand)
	create(kept, 10, 7)

	log := NewLog(inner)
	knows := func(when string, want uint64) {
		t.Helper()
		if got := log.Configured(); got != want {
			t.Errorf("newest-configuration: %s it is that of index %d, want %d", when, got, want)
		}
	}
	snaps, err := log.Snapshots(kept)
	if err != nil {
		t.Fatal(err)
	}
	knows("after the snapshot is found", 7)
	for index := uint64(11); index <= 12; index++ { // as raft does when it starts
		if err := log.GetLog(index, new(raft.Log)); err != nil {
			t.Fatal(err)
		}
	}
	knows("after the log is read", 11)
	put(log, 13, raft.LogConfiguration)
	put(log, 14, raft.LogNoop)
	knows("after a change is written", 13)
	create(snaps, 12, 11)
	knows("after an older snapshot", 13)
	create(snaps, 90, 80)
	knows("after a newer snapshot is installed", 80)
}
