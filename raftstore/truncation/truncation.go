// Package truncation is about the deletion of entries, at either end of a log: Gradual lets
// others be stored meanwhile, and Log ends a process whose raft no longer knows where its
// log ends.
//
// A follower of hashicorp/raft 1.8 whose log differs from the leader's deletes its
// entries from the first that differs, and stores the leader's. If the second write
// fails, as on a full disk, the last index in memory stays that of the entries which
// are deleted. The same request again, once there is space, finds "an entry to
// compare" below that index, fails to read it, and is refused, always; and if the
// server is elected it writes its first entry behind a hole. Only a start reads the
// end of the log from the disk. TestRaftKeepsADeletedLastIndex reproduces it on raft
// alone.
//
// Where the disk is known to be full, package ballast refuses the deletion, after which raft's memory
// is right. What is left is the write that meets the full disk first, and a disk that fails.
package truncation

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Log is a log store that watches for a failed write after a deletion at its end.
type Log struct {
	raft.LogStore
	lost    func(error)
	deleted atomic.Uint64 // first index that was deleted at the end and not stored since; 0: none
}

// Watch returns the log. lost is called once for each loss, from within the write
// that failed, and has to end the process: raft goes on with a wrong last index.
func Watch(log raft.LogStore, lost func(error)) *Log { return &Log{LogStore: log, lost: lost} }

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	err := l.LogStore.StoreLogs(entries)
	if first := l.deleted.Swap(0); first > 0 && err != nil {
		l.lost(fmt.Errorf("store entries in the place of those deleted from %d on: %w; raft learns the end of its log at a start", first, err))
	}
	return err
}

// DeleteRange implements raft.LogStore. A snapshot deletes from the beginning and
// leaves the last entries, from another goroutine than that which stores.
func (l *Log) DeleteRange(first, last uint64) error {
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
