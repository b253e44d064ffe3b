package raftguard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Log is a log store that times every write, since a leader whose disk hangs stays leader for
// ever as far as raft is concerned: heartbeats never touch the disk (hashicorp/raft issues 503,
// 612, 614). It also counts the bytes that were written, guards each entry with a checksum, and
// knows where the newest command and the newest configuration stand. It may be used concurrently.
type Log struct {
	raft.LogStore
	command atomic.Uint64

	mu         sync.Mutex
	began      time.Time                   // zero: no write under way
	bytes      uint64                      // since the last snapshot
	counted    bool                        // bytes has all that was written before the start
	next       uint64                      // until it has: the entry after the last one that was read
	took       [newestWrites]time.Duration // of the newest writes, as a ring
	writes     int                         // that were made
	failed     time.Time                   // of the newest failed write
	failure    error
	configured uint64        // see Configured
	last       uint64        // index where the newest write ends that was begun
	grows      chan struct{} // closed at the next write; nil while no goroutine waits for it
}

// newestWrites is of how many writes Took tells.
const newestWrites = 32

// NewLog returns a log that is written to inner.
func NewLog(inner raft.LogStore) *Log { return &Log{LogStore: inner} }

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. Raft calls it from one goroutine.
func (l *Log) StoreLogs(es []*raft.Log) error {
	var n uint64
	for _, e := range es {
		n += uint64(len(e.Data))
		e.Extensions = checksum(e)
		if e.Type == raft.LogCommand {
			l.command.Store(e.Index)
		}
		l.seen(e)
	}
	l.begin(es)
	err := l.LogStore.StoreLogs(es)
	l.end(n, err)
	return err
}

// GetLog implements raft.LogStore. bolt does not notice a bit that flipped in a
// value, and a peer that applied it would part from the others in silence; raft
// reads every entry behind its snapshot when it starts, and refuses to with this error.
//
// The entries that were written before this process started are counted here. Raft reads the
// last one when it starts, and then all behind its snapshot in their order, before it writes any:
// a read that does not follow the one before begins the count again.
func (l *Log) GetLog(index uint64, e *raft.Log) error {
	if err := l.LogStore.GetLog(index, e); err != nil {
		return err
	}
	l.seen(e)
	if err := VerifyEntry(index, e); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counted {
		return nil
	}
	if e.Index != l.next {
		l.bytes = 0
	}
	l.bytes += uint64(len(e.Data))
	l.next = e.Index + 1
	return nil
}

// Counted ends the count of what was written before: raft has started.
func (l *Log) Counted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = true
}

// VerifyEntry returns an error if the entry that the log has at an index is not as it was
// written there. Every release has written a checksum.
func VerifyEntry(index uint64, e *raft.Log) error {
	if e.Index != index {
		return fmt.Errorf("entry %d of the log: entry %d is in its place", index, e.Index)
	}
	if !bytes.Equal(e.Extensions, checksum(e)) {
		return fmt.Errorf("entry %d of the log: its checksum does not fit", index)
	}
	return nil
}

// checksum covers all of an entry that its index does not tell.
func checksum(e *raft.Log) []byte {
	sum := crc32.Checksum(e.Data, castagnoli)
	sum = crc32.Update(sum, castagnoli, []byte{byte(e.Type)})
	sum = crc32.Update(sum, castagnoli, binary.BigEndian.AppendUint64(nil, e.Term))
	return binary.BigEndian.AppendUint32(nil, sum)
}

func (l *Log) begin(es []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Now()
	for _, e := range es {
		l.last = e.Index
	}
	if l.grows != nil {
		close(l.grows)
		l.grows = nil
	}
}

// GrownBeyond reports whether the newest write that was begun ends beyond an index, and
// returns a channel that is closed when the next one begins. Raft calls StoreLogs before it
// knows of the entries itself.
func (l *Log) GrownBeyond(index uint64) (more bool, grows <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grows == nil {
		l.grows = make(chan struct{})
	}
	return l.last > index, l.grows
}

func (l *Log) end(n uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := time.Since(l.began)
	l.began = time.Time{}
	if err != nil {
		l.failed, l.failure = time.Now(), err
		return
	}
	l.bytes += n
	l.counted = true
	l.took[l.writes%newestWrites] = took
	l.writes++
}

// Took returns how long the newest writes took, their median; 0 before the first.
func (l *Log) Took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(l.writes, newestWrites)
	if n == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(l.took[:n]))[n/2]
}

// Command returns the index of the newest command that was to be written. A
// follower's may since have been cut off; who leads has written one of its own.
func (l *Log) Command() uint64 { return l.command.Load() }

// Writing returns for how long the present write has been under way, 0 if none is.
func (l *Log) Writing() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		return 0
	}
	return time.Since(l.began)
}

// Failure returns the newest failed write and when it was; nil: none failed.
func (l *Log) Failure() (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed, l.failure
}

// Bytes returns how many bytes were written since the last snapshot, also before a restart.
func (l *Log) Bytes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// SnapshotTaken forgets n bytes that the new snapshot covers.
func (l *Log) SnapshotTaken(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= min(n, l.bytes)
}
