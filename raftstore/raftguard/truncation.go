package raftguard

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// endWatch is what WatchEnd returns.
type endWatch struct {
	raft.LogStore
	lost    func(error)
	deleted atomic.Uint64 // first index that was deleted at the end and not stored since; 0: none
}

// WatchEnd returns a log store that reports a failed write after a deletion at the log's end.
//
// A follower of hashicorp/raft 1.8 whose log differs from the leader's deletes its entries from
// the first that differs, and stores the leader's. If the second write fails, as on a full
// disk, the last index in memory stays that of the entries which are deleted. The same request
// again, once there is space, finds "an entry to compare" below that index, fails to read it,
// and is refused, always; and if the server is elected it writes its first entry behind a
// hole. Only a start reads the end of the log from the disk. TestRaftKeepsADeletedLastIndex
// reproduces it on raft alone. A log that refuses the deletion while the disk is known to be full
// keeps raft's memory right; what is left is the write that meets the full disk first, and
// a disk that fails.
//
// lost is called once for each loss, from within the write that failed, and has to end the
// process: raft goes on with a wrong last index.
func WatchEnd(log raft.LogStore, lost func(error)) raft.LogStore {
	return &endWatch{LogStore: log, lost: lost}
}

// StoreLog implements raft.LogStore.
func (l *endWatch) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore.
func (l *endWatch) StoreLogs(entries []*raft.Log) error {
	err := l.LogStore.StoreLogs(entries)
	if first := l.deleted.Swap(0); first > 0 && err != nil {
		l.lost(
			fmt.Errorf("store entries in the place of those deleted from %d on: %w; raft learns the end of its log at a start",
				first, err))
	}
	return err
}

// DeleteRange implements raft.LogStore. A snapshot deletes from the beginning and
// leaves the last entries, from another goroutine than that which stores.
func (l *endWatch) DeleteRange(first, last uint64) error {
	end, err := l.LastIndex()
	if err != nil {
		return err
	}
	if err := l.LogStore.DeleteRange(first, last); err != nil {
		return err
	}
	if last == end {
		l.deleted.Store(first)
	}
	return nil
}
