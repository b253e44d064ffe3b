package raftguard

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// fullStore is a log store that may have no space for entries.
type fullStore struct {
	*raft.InmemStore
	full bool // set by the test between two requests
}

// StoreLogs implements raft.LogStore.
func (s *fullStore) StoreLogs(entries []*raft.Log) error {
	if s.full {
		return syscall.ENOSPC
	}
	return s.InmemStore.StoreLogs(entries)
}

// nothing is a state machine that holds nothing.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("not asked for") }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }

// voter is one voter of three, raft alone; the test is the two others.
type voter struct {
	t        *testing.T
	disk     *fullStore
	log      raft.LogStore
	snaps    raft.SnapshotStore
	raft     *raft.Raft
	requests *raft.InmemTransport // of a leader
	serves   *raft.InmemTransport
}

// start runs raft on the disk.
func (v *voter) start() {
	v.t.Helper()
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = "a", hclog.NewNullLogger()
	_, v.serves = raft.NewInmemTransport("a")
	_, v.requests = raft.NewInmemTransport("b")
	v.requests.Connect("a", v.serves)
	if last, err := v.disk.LastIndex(); err != nil || last == 0 {
		servers := raft.Configuration{
			Servers: []raft.Server{{ID: "a", Address: "a"}, {ID: "b", Address: "b"}, {ID: "c", Address: "c"}}}
		if err := raft.BootstrapCluster(config, v.disk, v.disk, v.snaps, v.serves, servers); err != nil {
			v.t.Fatal(err)
		}
	}
	var err error
	if v.raft, err = raft.NewRaft(config, nothing{}, v.log, v.disk, v.snaps, v.serves); err != nil {
		v.t.Fatal(err)
	}
}

func (v *voter) stop() {
	v.t.Helper()
	if err := errors.Join(v.raft.Shutdown().Error(), v.requests.Close(), v.serves.Close()); err != nil {
		v.t.Error(err)
	}
}

// append sends the voter, as the leader of a term, entries of that term from index 2
// to last, and returns whether it has them.
func (v *voter) append(term, last uint64) bool {
	v.t.Helper()
	request := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("b"), Addr: []byte("b")},
		Term:      term, PrevLogEntry: 1, PrevLogTerm: 1,
	}
	for index := uint64(2); index <= last; index++ {
		request.Entries = append(request.Entries, &raft.Log{Index: index, Term: term, Type: raft.LogNoop})
	}
	var answer raft.AppendEntriesResponse
	if err := v.requests.AppendEntries("a", "a", request, &answer); err != nil {
		v.t.Fatal(err)
	}
	return answer.Success
}

// overwriteOnFullDisk has a voter delete entries of an old leader, and fail to store
// those of the next one in their place because the disk is full. It returns whether
// the voter takes them when there is space again, and after another start; and what
// WatchEnd tells, if there is one.
func overwriteOnFullDisk(t *testing.T, watched bool) (takes, takesAfterStart bool, lost []error) {
	t.Helper()
	v := &voter{t: t, disk: &fullStore{InmemStore: raft.NewInmemStore()}, snaps: raft.NewDiscardSnapshotStore()}
	if v.log = v.disk; watched {
		v.log = WatchEnd(v.disk, func(err error) { lost = append(lost, err) })
	}
	v.start()
	if !v.append(2, 4) {
		t.Fatal("the entries of the first leader were refused")
	}
	v.disk.full = true
	if v.append(3, 3) {
		t.Fatal("entries were stored on a full disk")
	}
	v.disk.full = false
	for range 3 {
		takes = takes || v.append(3, 3)
	}
	v.stop()
	v.start()
	takesAfterStart = v.append(3, 3)
	v.stop()
	return takes, takesAfterStart, lost
}

// TestRaftKeepsADeletedLastIndex shows the defect of raft that WatchEnd is for.
// When it fails after an upgrade of raft, WatchEnd may go.
func TestRaftKeepsADeletedLastIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes, takesAfterStart, _ := overwriteOnFullDisk(t, false)
		if takes || !takesAfterStart {
			t.Errorf("with space again the voter takes entries: %v; after another start: %v", takes, takesAfterStart)
		}
	})
}

func TestLossOfTheLastIndexIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, takesAfterStart, lost := overwriteOnFullDisk(t, true)
		if len(lost) != 1 || !errors.Is(lost[0], syscall.ENOSPC) || !takesAfterStart {
			t.Errorf("last-index-lost: told %v; after another start the voter takes entries: %v", lost, takesAfterStart)
		}
	})
}

// A write that fails where nothing was deleted before it, or only at the beginning,
// is an ordinary failure: raft's memory is right.
func TestOrdinaryFailuresEndNothing(t *testing.T) {
	disk := &fullStore{InmemStore: raft.NewInmemStore()}
	log := WatchEnd(disk, func(err error) { t.Errorf("last-index-lost: %v", err) })
	entries := func(first, last uint64) (out []*raft.Log) {
		for index := first; index <= last; index++ {
			out = append(out, &raft.Log{Index: index, Term: 1})
		}
		return out
	}
	store := func(full bool, first, last uint64) {
		t.Helper()
		disk.full = full
		if err := log.StoreLogs(entries(first, last)); (err != nil) != full {
			t.Fatalf("store %d to %d: %v", first, last, err)
		}
	}
	remove := func(first, last uint64) {
		t.Helper()
		if err := log.DeleteRange(first, last); err != nil {
			t.Fatal(err)
		}
	}
	store(false, 1, 9)
	store(true, 10, 10)
	remove(1, 5) // a snapshot
	store(true, 10, 10)
	remove(8, 9) // the leader's entries differ
	store(false, 8, 8)
	store(true, 9, 9)
}
