package wal

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// keyCarried is where the log behind records the last generation that it has in full.
const keyCarried = "TrivetWALCarried"

// notFound is how every stable store of raft says that a key has no value.
const notFound = "not found"

// chunks is in how many transactions a file is carried over, since a term or a vote
// waits for each. Where a write waits for all of them it is one, which is over sooner.
const chunks = 8

// Behind is the log that the entries are carried over to.
type Behind interface {
	raft.LogStore
	SetUint64(key []byte, value uint64) error
	GetUint64(key []byte) (uint64, error)
}

// File is one of the two files. It has its full size from the beginning.
type File interface {
	ReadAt(p []byte, at int64) (int, error)
	WriteAt(p []byte, at int64) (int, error)
	Sync() error // returns when the disk has all that was written
	Close() error
}

// Log is a log store with a write-ahead log in front of another. Its methods may be
// called concurrently.
type Log struct {
	behind Behind
	files  [2]File // generation n is in file n modulo 2
	size   int64   // of a file

	kick chan struct{} // capacity 1: older is to be carried over
	quit chan struct{} // closed by Close
	done sync.WaitGroup

	// The locks are taken in this order.
	writing  sync.Mutex // what changes the log
	at       place      // guarded by writing
	carrying sync.Mutex // what carries entries over

	held       sync.RWMutex
	generation uint64      // changes while writing is held, too
	older      []*raft.Log // of generation-1, not carried over yet
	newer      []*raft.Log // of generation
	by         map[uint64]*raft.Log
}

// place is where the next batch goes, in the file of the present generation.
type place struct {
	batches uint64 // of the generation
	before  uint64 // batches of the generation before, when this one began; 0 if all was carried over
	end     int64
	broken  bool // a write failed: what the file holds behind end is not known
}

// open continues what the files hold.
func open(behind Behind, files [2]File, size int64) (*Log, error) {
	carried, older, newer, err := rest(behind, files, size)
	if err != nil {
		return nil, err
	}
	if newer.generation == 0 {
		older, newer = found{}, older
	}
	l := &Log{
		behind: behind, files: files, size: size, by: make(map[uint64]*raft.Log), kick: make(chan struct{}, 1), quit: make(chan struct{}),
		generation: max(newer.generation, carried+1), at: place{batches: newer.batches, before: newer.before, end: newer.end}, older: older.entries, newer: newer.entries,
	}
	for _, e := range slices.Concat(older.entries, newer.entries) {
		l.by[e.Index] = e
	}
	l.done.Go(l.run)
	l.kick <- struct{}{}
	return l, nil
}

// run carries over what is not written any more, until Close.
func (l *Log) run() {
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

// rest returns what of the files is not carried over.
func rest(behind Behind, files [2]File, size int64) (carried uint64, older, newer found, err error) {
	carried, err = behind.GetUint64([]byte(keyCarried))
	if err != nil && err.Error() != notFound {
		return 0, found{}, found{}, fmt.Errorf("read %s: %w", keyCarried, err)
	}
	// What a process wrote that was killed before it waited for the disk can be read, and
	// may still be lost: it counts from now on.
	for _, file := range files {
		if err := file.Sync(); err != nil {
			return 0, found{}, found{}, fmt.Errorf("sync the write-ahead log: %w", err)
		}
	}
	older, newer, err = findAll(files, size, carried)
	return carried, older, newer, err
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
	out := body(es)
	large := int64(len(out)) > l.size-align
	if l.at.broken || large {
		if err := l.carryAll(); err != nil {
			return err
		}
	}
	if large {
		return l.behind.StoreLogs(es)
	}
	if l.at.end+int64(len(out))+align > l.size {
		if err := l.turn(); err != nil {
			return err
		}
	}
	return l.write(es, head(out, l.generation, l.at.batches, l.at.before))
}

// write appends a batch. writing is held.
func (l *Log) write(es []*raft.Log, out []byte) error {
	file := l.files[l.generation%2]
	_, err := file.WriteAt(out, l.at.end)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		l.at.broken = true
		return fmt.Errorf("write-ahead log: %w", err)
	}
	l.at.end += int64(len(out))
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

// turn begins the next generation, in the other file. writing is held.
func (l *Log) turn() error {
	if err := l.carryOlder(l.size); err != nil {
		return err
	}
	l.held.Lock()
	l.older = l.newer
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
	l.at = place{before: before}
}

// carryOlder carries over the generation before the present one, at most so many bytes
// in a transaction.
func (l *Log) carryOlder(most int64) error {
	l.carrying.Lock()
	defer l.carrying.Unlock()
	l.held.RLock()
	es, generation := l.older, l.generation-1
	l.held.RUnlock()
	if len(es) == 0 {
		return nil
	}
	if err := carry(l.behind, es, generation, most); err != nil {
		return err
	}
	l.held.Lock()
	defer l.held.Unlock()
	l.forget(es)
	l.older = nil
	return nil
}

// carryAll carries over all that is not yet, and begins a generation. writing is held.
func (l *Log) carryAll() error {
	if err := l.carryOlder(l.size); err != nil {
		return err
	}
	l.held.RLock()
	es := l.newer
	l.held.RUnlock()
	if len(es) == 0 && !l.at.broken {
		return nil
	}
	l.carrying.Lock()
	defer l.carrying.Unlock()
	// Also of a generation of which nothing was acknowledged: what failed must not be found.
	if err := carry(l.behind, es, l.generation, l.size); err != nil {
		return err
	}
	l.held.Lock()
	defer l.held.Unlock()
	l.forget(es)
	l.next(0)
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

// carry writes the entries of a generation to the log behind, then that it has them.
func carry(behind Behind, es []*raft.Log, generation uint64, most int64) error {
	for len(es) > 0 {
		n, size := 0, int64(0)
		for n < len(es) && (n == 0 || size < most) {
			size += int64(entryLen + len(es[n].Data))
			n++
		}
		if err := behind.StoreLogs(es[:n]); err != nil {
			return fmt.Errorf("carry over the write-ahead log: %w", err)
		}
		es = es[n:]
	}
	if err := behind.SetUint64([]byte(keyCarried), generation); err != nil {
		return fmt.Errorf("carry over the write-ahead log: %w", err)
	}
	return nil
}

// DeleteRange implements raft.LogStore. Where it ends before the first entry that is
// not carried over, nothing needs to be. What a failed write left in the file must not
// be found behind a deletion.
func (l *Log) DeleteRange(first, last uint64) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if begin := l.begin(); l.at.broken || begin != 0 && last >= begin {
		if err := l.carryAll(); err != nil {
			return err
		}
	}
	return l.behind.DeleteRange(first, last)
}

// begin returns the lowest index that is not carried over; 0: all is.
func (l *Log) begin() uint64 {
	l.held.RLock()
	defer l.held.RUnlock()
	for _, es := range [][]*raft.Log{l.older, l.newer} {
		if len(es) > 0 {
			return es[0].Index
		}
	}
	return 0
}

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	begin := l.begin() // before the log behind is asked, which may get it meanwhile
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
	for _, es := range [][]*raft.Log{l.newer, l.older} {
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

// Close carries over what is left and closes the files. What cannot be carried over,
// as on a full disk, stays in the files for the next start.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	close(l.quit)
	l.done.Wait()
	_ = l.carryAll() // nothing is lost by it
	if err := errors.Join(l.files[0].Close(), l.files[1].Close()); err != nil {
		return fmt.Errorf("close the write-ahead log: %w", err)
	}
	return nil
}
