package wal

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// chunks is in how many transactions a file is carried over, since a term or a vote
// waits for each. Where a write waits for all of them it is one, which is over sooner.
const chunks = 8

// Log is a log store with a write-ahead log in front of another. Its methods may be
// called concurrently.
type Log struct {
	behind Behind
	pair

	kick chan struct{} // capacity 1: older is to be carried over
	quit chan struct{} // closed by Close
	done sync.WaitGroup

	// The locks are taken in this order.
	writing  sync.Mutex // what changes the log
	at       place      // guarded by writing
	carrying sync.Mutex // what carries entries over

	held       sync.RWMutex
	generation uint64      // changes while writing is held, too
	older      use         // the generation before, as long as its file is not clear
	newer      []*raft.Log // of generation
	by         map[uint64]*raft.Log
}

// pair is the two files.
type pair struct {
	in     folder
	files  [2]File // generation n is in file n modulo 2
	size   int64   // of each
	secret secret
}

// use is a generation whose file is written no more.
type use struct {
	generation uint64 // 0: all is carried over, and the file is clear
	entries    []*raft.Log
	end        int64 // where the file is clear from
}

// place is where the next batch goes, in the file of the present generation.
type place struct {
	batches uint64 // of the generation
	before  uint64 // batches of the generation before, when this one began; 0 if all was carried over
	end     int64
	dirty   int64 // where the file is clear from
	// the generation takes no more batches: what the file holds behind end is not known, or it may count as carried over
	broken bool
}

// newLog returns a log in front of which stand these files, which hold nothing yet.
func newLog(behind Behind, files pair) *Log {
	l := &Log{
		behind: behind, pair: files, kick: make(chan struct{}, 1), quit: make(chan struct{}),
		generation: 1, at: place{end: batchAt}, by: make(map[uint64]*raft.Log),
	}
	l.done.Go(l.carryInBackground)
	return l
}

// carryInBackground carries over what is not written any more, until Close.
func (l *Log) carryInBackground() {
	for {
		select {
		case <-l.kick:
			// What fails is tried again by the write that needs the file, which returns the error.
			_ = l.carryOlder(l.size / chunks)
		case <-l.quit:
			return
		}
	}
}

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore.
func (l *Log) StoreLogs(es []*raft.Log) error {
	if len(es) == 0 {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	out := batch(es)
	room := int64(len(out)) + align
	large := batchAt+room > l.size
	if l.at.broken || large {
		if err := l.carryAll(); err != nil {
			return err
		}
	}
	if large {
		return l.behind.StoreLogs(es)
	}
	if l.at.end+room > l.size {
		if err := l.beginGeneration(); err != nil {
			return err
		}
	}
	return l.write(es, finish(out, l.secret, l.at.end, l.generation, l.at.batches, l.at.before))
}

// write appends a batch, and notes in the other file that it is on the disk. The note waits for
// no disk: the kernel keeps it when the process is killed. writing is held.
func (l *Log) write(es []*raft.Log, out []byte) error {
	file, other := l.files[l.generation%2], l.files[(l.generation+1)%2]
	end := l.at.end + int64(len(out))
	l.at.dirty = end
	_, err := file.WriteAt(out, l.at.end)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		ack := make([]byte, headerLen)
		l.secret.seal(ack, ackAt, header{generation: l.generation, number: l.at.batches + 1})
		_, err = other.WriteAt(ack, ackAt)
	}
	if err != nil {
		l.at.broken = true
		return fmt.Errorf("write-ahead log: %w", err)
	}
	l.at.end = end
	l.at.batches++
	l.held.Lock()
	defer l.held.Unlock()
	for _, e := range es {
		kept := *e
		l.newer = append(l.newer, &kept)
		l.by[e.Index] = &kept
	}
	return nil
}

// beginGeneration begins the next generation, in the other file. writing is held.
func (l *Log) beginGeneration() error {
	if err := l.carryOlder(l.size); err != nil {
		return err
	}
	l.held.Lock()
	l.older = use{l.generation, l.newer, l.at.dirty}
	l.next(l.at.batches)
	l.held.Unlock()
	select {
	case l.kick <- struct{}{}:
	default: // one is waiting
	}
	return nil
}

// next begins a generation. writing and held are held.
func (l *Log) next(before uint64) {
	l.generation++
	l.newer = nil
	l.at = place{before: before, end: batchAt}
}

// carryOlder carries over the generation before the present one, at most so many bytes
// in a transaction, and clears its file.
func (l *Log) carryOlder(most int64) error {
	l.carrying.Lock()
	defer l.carrying.Unlock()
	l.held.RLock()
	older := l.older
	l.held.RUnlock()
	if older.generation == 0 {
		return nil
	}
	if err := l.carry(older, most); err != nil {
		return err
	}
	l.held.Lock()
	defer l.held.Unlock()
	l.forget(older.entries)
	l.older = use{}
	return nil
}

// carryAll carries over all that is not yet, and begins a generation. writing is held.
func (l *Log) carryAll() error {
	if err := l.carryOlder(l.size); err != nil {
		return err
	}
	l.held.RLock()
	newer := use{l.generation, l.newer, l.at.dirty}
	l.held.RUnlock()
	if len(newer.entries) == 0 && !l.at.broken {
		return nil
	}
	l.carrying.Lock()
	defer l.carrying.Unlock()
	// A failure may come after the record: the generation may count as carried over then, and
	// what were written to it now would be lost.
	l.at.broken = true
	// Also of a generation of which nothing was acknowledged: what failed must not be found.
	if err := l.carry(newer, l.size); err != nil {
		return err
	}
	l.held.Lock()
	defer l.held.Unlock()
	l.forget(newer.entries)
	l.next(0)
	return nil
}

// carry writes a generation to the log behind, records that it has it, and clears the file.
// carrying is held.
func (l *Log) carry(u use, most int64) error {
	is := record{used: true, secret: l.secret}
	if _, err := is.carry(l.behind, u.entries, u.generation, most); err != nil {
		return err
	}
	file, zeros := l.files[u.generation%2], make([]byte, min(clearChunk, u.end))
	for at := int64(batchAt); at < u.end; at += clearChunk {
		_, err := file.WriteAt(zeros[:min(clearChunk, u.end-at)], at)
		if err == nil {
			err = file.Sync()
		}
		if err != nil {
			return fmt.Errorf("clear the write-ahead log: %w", err)
		}
	}
	return nil
}

// forget drops entries that are carried over. held is held.
func (l *Log) forget(es []*raft.Log) {
	for _, e := range es {
		if l.by[e.Index] == e {
			delete(l.by, e.Index)
		}
	}
}

// DeleteRange implements raft.LogStore. Where it ends before the first entry that is
// not carried over, nothing needs to be. What a failed write left in the file must not
// be found behind a deletion.
func (l *Log) DeleteRange(first, last uint64) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if begin := l.lowestPending(); l.at.broken || begin != 0 && last >= begin {
		if err := l.carryAll(); err != nil {
			return err
		}
	}
	return l.behind.DeleteRange(first, last)
}

// lowestPending returns the lowest index that is not carried over; 0: all is.
func (l *Log) lowestPending() uint64 {
	l.held.RLock()
	defer l.held.RUnlock()
	for _, es := range [][]*raft.Log{l.older.entries, l.newer} {
		if len(es) > 0 {
			return es[0].Index
		}
	}
	return 0
}

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	begin := l.lowestPending() // before the log behind is asked, which may get it meanwhile
	first, err := l.behind.FirstIndex()
	if err != nil || begin == 0 || first != 0 && first < begin {
		return first, err
	}
	return begin, nil
}

// LastIndex implements raft.LogStore.
func (l *Log) LastIndex() (uint64, error) {
	l.held.RLock()
	defer l.held.RUnlock()
	for _, es := range [][]*raft.Log{l.newer, l.older.entries} {
		if len(es) > 0 {
			return es[len(es)-1].Index, nil
		}
	}
	return l.behind.LastIndex()
}

// GetLog implements raft.LogStore.
func (l *Log) GetLog(index uint64, to *raft.Log) error {
	l.held.RLock()
	e, ok := l.by[index]
	l.held.RUnlock()
	if !ok {
		return l.behind.GetLog(index, to)
	}
	*to = *e
	return nil
}

// Close carries over what is left, and removes the files. What cannot be carried over,
// as on a full disk, stays in the files for the next start.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	close(l.quit)
	l.done.Wait()
	if l.carryAll() == nil { // a failure loses nothing: the next opening does both
		_ = discard(l.behind, l.in, record{used: true, carried: l.generation, secret: l.secret})
	}
	if err := closeFiles(l.files); err != nil {
		return fmt.Errorf("close the write-ahead log: %w", err)
	}
	return nil
}
