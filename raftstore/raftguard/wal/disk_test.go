package wal

import (
	"bytes"
	cryptorand "crypto/rand"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

// testSize makes files of few batches.
const testSize = 4096

// sector is what a disk writes wholly or not at all.
const sector = 512

var errKilled = errors.New("the process was killed")

// simulated is what outlives a process: two files with a cache in front of them, and the
// log behind. Its operations are counted; it may die at one, or let some fail.
type simulated struct {
	mu     sync.Mutex
	rand   *rand.Rand
	files  [2]*file // nil: it is not there
	behind *stored

	left  int     // operations until the process is killed; below 0: it is not
	fails float64 // share of the operations that fail
	fault error   // what they fail with
	late  error   // what a sync fails with that has stored all
}

func newDisk(seed uint64) *simulated {
	return &simulated{rand: rand.New(rand.NewPCG(seed, 0)), behind: newStored(), left: -1}
}

// open implements folder.
func (d *simulated) open() (files [2]File, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, f := range d.files {
		if f != nil {
			files[n] = f
		}
	}
	return files, d.op()
}

// create implements folder.
func (d *simulated) create(size int64, headings [2][]byte) error {
	for n, heading := range headings {
		f := &file{d: d, stored: make([]byte, size), dirty: make(map[int]bool)}
		copy(f.stored, heading)
		f.cached = bytes.Clone(f.stored)
		if err := d.place(n, f); err != nil {
			return err
		}
	}
	return nil
}

// remove implements folder.
func (d *simulated) remove() error { return errors.Join(d.place(0, nil), d.place(1, nil)) }

// place puts a file in its place, or removes it.
func (d *simulated) place(n int, f *file) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op(); err != nil {
		return err
	}
	d.files[n] = f
	return nil
}

// op counts an operation, which is done unless there is an error.
func (d *simulated) op() error {
	if d.left == 0 {
		return errKilled
	}
	if d.left > 0 {
		d.left--
	}
	if d.fails > 0 && d.rand.Float64() < d.fails {
		return d.fault
	}
	return nil
}

// crash takes the power away: of what was not waited for, each sector is stored or not.
func (d *simulated) crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		if f == nil {
			continue
		}
		for at := 0; at < testSize; at += sector {
			if f.dirty[at] && d.rand.IntN(2) == 0 {
				copy(f.stored[at:at+sector], f.cached[at:])
			}
		}
		copy(f.cached, f.stored)
		clear(f.dirty)
	}
	d.left = -1
}

// file is one file.
type file struct {
	d              *simulated
	stored, cached []byte
	dirty          map[int]bool // sectors, by where they begin
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return copy(p, f.cached[at:]), nil
}

// WriteAt writes all, or fails and has written some sectors.
func (f *file) WriteAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.left == 0 {
		return 0, errKilled
	}
	err := f.d.op()
	if err != nil {
		sectors := (int(at)%sector + len(p)) / sector
		p = p[:max(0, min(f.d.rand.IntN(sectors+1)*sector-int(at)%sector, len(p)))]
	}
	n := copy(f.cached[at:], p)
	for s := int(at) / sector * sector; s < int(at)+n; s += sector {
		f.dirty[s] = true
	}
	return n, err
}

// Sync stores all, or fails and has stored some.
func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.left == 0 {
		return errKilled
	}
	err := errors.Join(f.d.op(), f.d.late)
	for at := range f.dirty {
		if err == nil || f.d.late != nil || f.d.rand.IntN(2) == 0 {
			copy(f.stored[at:at+sector], f.cached[at:])
		}
	}
	if err == nil {
		clear(f.dirty)
	}
	return err
}

func (f *file) Close() error { return nil }

// stored is what the log behind has on the disk. As in bolt, there may be gaps.
type stored struct {
	mu   sync.Mutex
	logs map[uint64]raft.Log
	keys map[string][]byte
}

func newStored() *stored {
	return &stored{logs: make(map[uint64]raft.Log), keys: make(map[string][]byte)}
}

func (s *stored) edge(better func(a, b uint64) bool) (edge uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for index := range s.logs {
		if edge == 0 || better(index, edge) {
			edge = index
		}
	}
	return edge, nil
}

func (s *stored) FirstIndex() (uint64, error) { return s.edge(func(a, b uint64) bool { return a < b }) }
func (s *stored) LastIndex() (uint64, error)  { return s.edge(func(a, b uint64) bool { return a > b }) }

func (s *stored) GetLog(index uint64, to *raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.logs[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*to = e
	return nil
}

func (s *stored) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.keys[string(key)]
	if !ok {
		return nil, errors.New(notFound)
	}
	return bytes.Clone(v), nil
}

// behind is the log behind: what it does is stored wholly or not at all.
type behind struct {
	*stored
	d *simulated
}

func (b behind) do(change func()) error {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if err := b.d.op(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	return nil
}

func (b behind) StoreLog(e *raft.Log) error { return b.StoreLogs([]*raft.Log{e}) }

func (b behind) StoreLogs(es []*raft.Log) error {
	return b.do(func() {
		for _, e := range es {
			b.logs[e.Index] = *e
		}
	})
}

func (b behind) DeleteRange(first, last uint64) error {
	return b.do(func() {
		maps.DeleteFunc(b.logs, func(index uint64, _ raft.Log) bool { return index >= first && index <= last })
	})
}

// Set may store what it reports as failed.
func (b behind) Set(key, v []byte) error {
	err := b.do(func() { b.keys[string(key)] = bytes.Clone(v) })
	if err != nil && !errors.Is(err, errKilled) && b.coin() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.keys[string(key)] = bytes.Clone(v)
	}
	return err
}

func (b behind) coin() bool {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	return b.d.rand.IntN(2) == 0
}

// start opens the log as a process does.
func (d *simulated) start(t *testing.T) *Log {
	t.Helper()
	l, err := open(behind{d.behind, d}, d, testSize, cryptorand.Reader)
	if err != nil {
		t.Fatalf("acknowledged-entry-lost: %v", err)
	}
	return l
}

// kill ends the process of a log, which leaves what it was doing.
func kill(l *Log) {
	close(l.quit)
	l.done.Wait()
}
