package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// timedLog times every write, since a leader whose disk hangs stays leader for
// ever as far as raft is concerned: heartbeats never touch the disk
// (hashicorp/raft issues 503, 612, 614). It also counts the bytes for the
// snapshot trigger.
type timedLog struct {
	raft.LogStore

	mu      sync.Mutex
	began   time.Time // zero: no write under way
	bytes   uint64    // since the last snapshot
	failed  time.Time // of the newest failed write
	failure error
}

// StoreLog implements raft.LogStore.
func (l *timedLog) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. Raft calls it from one goroutine.
func (l *timedLog) StoreLogs(es []*raft.Log) error {
	var n uint64
	for _, e := range es {
		n += uint64(len(e.Data))
	}
	l.begin()
	err := l.LogStore.StoreLogs(es)
	l.end(n, err)
	return err
}

func (l *timedLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Now()
}

func (l *timedLog) end(n uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Time{}
	if err != nil {
		l.failed, l.failure = time.Now(), err
		return
	}
	l.bytes += n
}

// writing returns for how long the present write has been under way, 0 if none is.
func (l *timedLog) writing() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		return 0
	}
	return time.Since(l.began)
}

func (l *timedLog) lastFailure() (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed, l.failure
}

func (l *timedLog) bytesSinceSnapshot() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// snapshotTaken forgets n bytes that the new snapshot covers.
func (l *timedLog) snapshotTaken(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= min(n, l.bytes)
}
