package host

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// History is what the log of a stopped peer tells.
type History struct {
	// State has every entry of the log applied, committed or not.
	State *fsm.State
	// Last is the highest index of the log.
	Last uint64
	// Committed is the highest index that the log itself proves committed: a
	// later entry may be one that no majority had. Raft does not record where
	// its log is committed, but peers tell in the log what they have applied.
	Committed uint64
	// Tail are the states of which one is the committed one, the oldest first, as far as
	// they differ in who may run: that of Committed, and State as the last. A peer that only
	// a later entry removes may run all the same: no other peer need have had that entry.
	Tail []Moment

	snapshots int // on the disk
}

// Moment is a state of a log that has been read.
type Moment struct {
	State *fsm.State
	Next  uint64 // index of the entry after it, or Last+1
}

// Replay reads the state of a stopped peer from its snapshots and its log, and
// writes nothing.
func Replay(st raftstore.Storage) (*History, error) {
	first, last, err := bounds(st.Log)
	if err != nil {
		return nil, err
	}
	h, err := newestSnapshot(st.Snapshots, first)
	if err != nil {
		return nil, err
	}
	at := h.State.View().Index()
	if first > 0 && first > at+1 {
		return nil, &raftstore.CorruptError{Path: "the log",
			Err: fmt.Errorf("it begins at entry %d, the newest snapshot ends at %d", first, at)}
	}
	h.Last, h.Committed = max(at, last), at
	var moments []Moment // each before an entry that changed who may run
	var e raft.Log
	for index := at + 1; index <= last; index++ {
		if err := cmp.Or(st.Log.GetLog(index, &e), raftguard.VerifyEntry(index, &e)); err != nil {
			return nil, &raftstore.CorruptError{Path: "the log", Err: fmt.Errorf("read entry %d: %w", index, err)}
		}
		if e.Type != raft.LogCommand {
			continue
		}
		before := *h.State
		if res := h.State.Apply(fsm.Entry{Index: e.Index, Term: e.Term, Data: e.Data}); res.Code == fsm.UnknownEntry {
			return nil, fmt.Errorf("log entry %d: %w", e.Index, res.Err())
		}
		if !slices.Equal(before.View().MayRun(""), h.State.View().MayRun("")) {
			moments = append(moments, Moment{&before, e.Index})
			h.prove(&before) // a session ends with its peer's removal
		}
	}
	h.prove(h.State)
	moments = slices.DeleteFunc(moments, func(m Moment) bool { return m.Next <= h.Committed })
	h.Tail = append(moments, Moment{h.State, h.Last + 1})
	return h, nil
}

// prove takes what the peers told until a state of what they have applied.
func (h *History) prove(s *fsm.State) {
	for _, s := range s.View().Sessions() {
		h.Committed = max(h.Committed, s.Applied)
	}
}

// bounds returns the first and the last index of a log, both 0 if it is empty.
func bounds(log raft.LogStore) (first, last uint64, err error) {
	if first, err = log.FirstIndex(); err != nil {
		return 0, 0, fmt.Errorf("find the beginning of the log: %w", err)
	}
	if last, err = log.LastIndex(); err != nil {
		return 0, 0, fmt.Errorf("find the end of the log: %w", err)
	}
	return first, last, nil
}

// newestSnapshot reads the newest snapshot that can be read and that the log,
// whose first index is given, continues. Raft's file store orders snapshots of
// equal term and index by the clock of the host, which may have been set back
// between them: of these, the one with the highest incarnation and base is the
// newest.
func newestSnapshot(store raft.SnapshotStore, first uint64) (*History, error) {
	metas, err := store.List()
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	best := &History{State: fsm.New(), snapshots: len(metas)}
	var newest *raft.SnapshotMeta // that best was read from
	var failed error
	for _, meta := range metas { // at most keepSnapshots, the newest first
		if newest != nil && (meta.Index != newest.Index || meta.Term != newest.Term) {
			break
		}
		state, err := readSnapshot(store, meta.ID)
		if errors.Is(err, fsm.UnknownEntry) {
			return nil, err
		}
		if err != nil {
			failed = &raftstore.CorruptError{Path: "snapshot " + meta.ID, Err: err}
			continue
		}
		v, was := state.View(), best.State.View()
		if newest == nil || cmp.Or(cmp.Compare(v.Incarnation(), was.Incarnation()), cmp.Compare(v.Base(), was.Base())) > 0 {
			best.State, newest = state, meta
		}
	}
	if newest == nil && failed != nil || failed != nil && first > newest.Index+1 {
		return nil, failed
	}
	return best, nil
}

func readSnapshot(store raft.SnapshotStore, id string) (*fsm.State, error) {
	_, from, err := store.Open(id) // compares the checksum
	if err != nil {
		return nil, err
	}
	state, err := fsm.Read(from)
	return state, errors.Join(err, from.Close())
}

// LastIndex returns the index of the newest entry in st, which a snapshot may
// stand for; 0: there is none. Raft does not use st yet.
func LastIndex(st raftstore.Storage) (last uint64, err error) {
	defer damaged("the log", &err)
	if last, err = st.Log.LastIndex(); err != nil {
		return 0, fmt.Errorf("find the end of the log: %w", err)
	}
	newest, err := st.Snapshots.List()
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	for _, s := range newest { // a handful
		last = max(last, s.Index)
	}
	return last, nil
}

// Members returns the members that a log tells of, by server ID. A peer that has heard
// no leader since its start has not applied its log, and cannot know which of the
// entries were committed: these records are for people, and decide nothing.
func Members(log raft.LogStore) (map[string]membership.Member, error) {
	first, last, err := bounds(log)
	if err != nil {
		return nil, err
	}
	members := make(map[string]membership.Member)
	var e raft.Log
	for index := first; index > 0 && index <= last; index++ {
		if err := log.GetLog(index, &e); err != nil {
			return nil, fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if e.Type == raft.LogCommand {
			fsm.NoteMember(members, e.Data)
		}
	}
	return members, nil
}
