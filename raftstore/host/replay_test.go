package host

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

func foundedState(t *testing.T) *fsm.State {
	t.Helper()
	s, err := fsm.Founded(fsm.Found{
		ClusterID: "11111111-2222-4333-8444-555555555555", CACert: []byte("-----BEGIN X"), CAKey: []byte("-----BEGIN X"),
		GossipKey: make([]byte, 32),
		Member:    membership.Member{ID: "a", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opened(t *testing.T) raftstore.Storage {
	t.Helper()
	st, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

var self = raftstore.Server{ID: "a", Address: "a@192.0.2.1:7350", Voter: true}

func refounded(t *testing.T, s *fsm.State) *fsm.State {
	t.Helper()
	next := *s
	err := next.Refound(fsm.Refound{Index: s.View().Index(), NewIncarnation: true, Survivor: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return &next
}

// seed writes one more snapshot of the same term and index.
func seed(t *testing.T, st raftstore.Storage, s *fsm.State) {
	t.Helper()
	_, codec := raft.NewInmemTransport("a")
	index := s.View().Index()
	sink, err := st.Snapshots.Create(raft.SnapshotVersionMax, index, founderTerm, configuration([]raftstore.Server{self}),
		index, codec)
	if err != nil {
		t.Fatal(err)
	}
	if err := raftstore.SnapshotOf(s.View()).Persist(sink); err != nil {
		t.Fatal(err)
	}
}

// Raft's file store sorts snapshots of equal term and index by the clock: of one
// that was set back between two recoveries, the later one comes second.
func TestReplayTakesTheLaterFoundingWhateverTheClock(t *testing.T) {
	first := foundedState(t)
	second := refounded(t, first)
	st := opened(t)
	seed(t, st, second)
	seed(t, st, first) // by the clock this one is newer
	h, err := Replay(st)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.State.View(); got.Base() != second.View().Base() || got.Incarnation() != 2 {
		t.Errorf("later-founding-counts: base %d, incarnation %d, want %d and 2", got.Base(), got.Incarnation(),
			second.View().Base())
	}
	if err := VerifySeed(st, second.View()); err == nil {
		t.Error("only-one-snapshot: a second snapshot is not noticed")
	}
	st = opened(t)
	if err := Seed(st, second, self); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(VerifySeed(st, second.View())); err != nil {
		t.Error(err)
	}
	if err := VerifySeed(st, first.View()); err == nil {
		t.Error("another state than was written is not noticed")
	}
}

// Every entry of the log counts, and those that the log does not prove committed
// are told apart.
func TestReplayTellsTheUncommittedTail(t *testing.T) {
	s := foundedState(t)
	st := opened(t)
	if err := Seed(st, s, self); err != nil {
		t.Fatal(err)
	}
	index := s.View().Index()
	write := func(kind raft.LogType, c fsm.Command) {
		t.Helper()
		index++
		e := &raft.Log{Index: index, Term: 2, Type: kind}
		if c != nil {
			data, err := fsm.Encode(fsm.Header{}, c)
			if err != nil {
				t.Fatal(err)
			}
			e.Data = data
		}
		if err := raftguard.NewLog(st.Log).StoreLog(e); err != nil {
			t.Fatal(err)
		}
	}
	write(raft.LogNoop, nil)
	write(raft.LogCommand, membership.OpenSession{Peer: "a", Boot: "x", Version: fsm.Version})
	h, err := Replay(st)
	if err != nil {
		t.Fatal(err)
	}
	session, ok := h.State.View().SessionOf("a")
	if !ok || h.Last != index || h.Committed != 1 {
		t.Fatalf("last %d, committed %d, session %v", h.Last, h.Committed, ok)
	}
	proven := index
	write(raft.LogCommand, membership.RenewSession{Session: session.ID, Applied: proven})
	write(raft.LogCommand, settings.PutSetting{Key: "k", Value: "v"})
	if h, err = Replay(st); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.State.View().Setting("k"); !ok || h.Last != index || h.Committed != proven {
		t.Errorf("last %d (want %d), committed %d (want %d), the last entry was applied: %v", h.Last, index, h.Committed,
			proven, ok)
	}

	if err := st.Log.DeleteRange(2, 3); err != nil { // a hole after the snapshot
		t.Fatal(err)
	}
	var corrupt *raftstore.CorruptError
	if _, err := Replay(st); !errors.As(err, &corrupt) {
		t.Errorf("a hole in the log: %v", err)
	}
}

func TestReplayFindsAChangedBit(t *testing.T) {
	st := opened(t)
	if err := Seed(st, foundedState(t), self); err != nil {
		t.Fatal(err)
	}
	if err := st.Log.StoreLog(
		&raft.Log{Index: 2, Term: 2, Type: raft.LogNoop, Extensions: []byte{1, 2, 3, 4}}); err != nil {
		t.Fatal(err)
	}
	var corrupt *raftstore.CorruptError
	if _, err := Replay(st); !errors.As(err, &corrupt) {
		t.Errorf("an entry that is not as it was written: %v", err)
	}
}
