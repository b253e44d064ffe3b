package ballast

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

// keyTerm is the one thing that raft cannot do without writing; it panics.
const keyTerm = "CurrentTerm"

// Guard returns st as it behaves with a ballast.
func (b *Ballast) Guard(st raftstore.Storage) raftstore.Storage {
	st.Log = guardedLog{st.Log, b}
	st.Stable = guardedStable{st.Stable, b}
	return st
}

// guardedLog takes no entries while the ballast is dropped: what it left is for
// terms, votes and what makes the log shorter.
type guardedLog struct {
	raft.LogStore
	b *Ballast
}

// StoreLog implements raft.LogStore.
func (l guardedLog) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. A leader that gets an error steps down, a
// follower does not count towards a commit.
func (l guardedLog) StoreLogs(es []*raft.Log) error {
	if err := l.b.refuses(); err != nil {
		return err
	}
	begun := time.Now()
	err := l.LogStore.StoreLogs(es)
	if err == nil {
		l.b.times.add(time.Since(begun))
	}
	if Full(err) {
		l.b.Drop()
	}
	return err
}

// DeleteRange implements raft.LogStore. Also what makes room needs some. Entries
// that are not at the beginning of the log are deleted for others in their place,
// which would be refused now: raft's memory is right only if both fail; see
// raftguard.WatchEnd.
func (l guardedLog) DeleteRange(first, last uint64) error {
	beginning, err := l.FirstIndex()
	if err != nil {
		return err
	}
	if err := l.b.refuses(); err != nil && beginning > 0 && first > beginning {
		return err
	}
	err = l.LogStore.DeleteRange(first, last)
	if Full(err) {
		l.b.Drop()
		err = l.LogStore.DeleteRange(first, last)
	}
	return err
}

// guardedStable writes terms and votes where the ballast was.
type guardedStable struct {
	raft.StableStore
	b *Ballast
}

// Set implements raft.StableStore.
func (s guardedStable) Set(key, value []byte) error {
	return s.try(func() error { return s.StableStore.Set(key, value) })
}

// SetUint64 implements raft.StableStore. A term that does not fit even so is waited
// with, for as long as it takes: a peer that stands still is to the others what one
// is that starts again and again, and goes on without an operator when space
// returns. Store.Close waits for it within its own limit.
func (s guardedStable) SetUint64(key []byte, value uint64) error {
	for {
		err := s.try(func() error { return s.StableStore.SetUint64(key, value) })
		if !Full(err) || string(key) != keyTerm {
			return err
		}
		time.Sleep(retryEvery)
	}
}

func (s guardedStable) try(write func() error) error {
	err := write()
	if Full(err) {
		s.b.Drop()
		err = write()
	}
	return err
}
