package wal

import (
	"bytes"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// state is what a log holds, by index.
type state map[uint64]*raft.Log

func (s state) last() uint64 {
	var last uint64
	for index := range s {
		last = max(last, index)
	}
	return last
}

func (s state) with(es []*raft.Log) state {
	s = maps.Clone(s)
	for _, e := range es {
		s[e.Index] = e
	}
	return s
}

func (s state) without(first, last uint64) state {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(index uint64, _ *raft.Log) bool { return index >= first && index <= last })
	return s
}

// differs says how a log differs from the state; "" if it does not.
func (s state) differs(l raft.LogStore) string {
	first, err := l.FirstIndex()
	last, err2 := l.LastIndex()
	if err := errors.Join(err, err2); err != nil {
		return err.Error()
	}
	var want uint64
	if len(s) > 0 {
		want = slices.Min(slices.Collect(maps.Keys(s)))
	}
	if first != want || last != s.last() {
		return fmt.Sprintf("it holds %d to %d, not %d to %d", first, last, want, s.last())
	}
	for index, e := range s {
		var got raft.Log
		if err := l.GetLog(index, &got); err != nil {
			return fmt.Sprintf("entry %d: %v", index, err)
		}
		if got.Index != e.Index || got.Term != e.Term || got.Type != e.Type || !bytes.Equal(got.Data, e.Data) ||
			!bytes.Equal(got.Extensions, e.Extensions) || !got.AppendedAt.Equal(e.AppendedAt) {
			return fmt.Sprintf("entry %d is %v, not %v", index, got, *e)
		}
	}
	var e raft.Log
	if err := l.GetLog(s.last()+1, &e); !errors.Is(err, raft.ErrLogNotFound) {
		return fmt.Sprintf("an entry behind the last: %v", err)
	}
	return ""
}

// life is a log through the deaths of its processes.
type life struct {
	t    *testing.T
	d    *simulated
	rand *rand.Rand // its own: the disk's is used while entries are carried over
	l    *Log
	term uint64
	is   state
	// might is what the log may also hold after a crash: an operation that failed may
	// have reached the disk, until one succeeds after it.
	might []state
}

// change does one operation; after is what the log holds if it succeeds.
func (f *life) change(after state, err error) bool {
	if err != nil {
		f.might = append(f.might, after)
		return false
	}
	f.is, f.might = after, nil
	return true
}

func (f *life) store(first uint64, n, most int) bool {
	es := make([]*raft.Log, n)
	for i := range es {
		es[i] = &raft.Log{Index: first + uint64(i), Term: f.term, Type: raft.LogType(f.rand.IntN(3)),
			Data: make([]byte, f.rand.IntN(most+1)), Extensions: []byte("four")}
		for j := range es[i].Data {
			es[i].Data[j] = byte(f.rand.Uint32())
		}
		if f.rand.IntN(2) == 0 {
			es[i].AppendedAt = time.Unix(1_700_000_000, int64(f.rand.IntN(1e9)))
		}
	}
	return f.change(f.is.with(es), f.l.StoreLogs(es))
}

func (f *life) remove(first, last uint64) bool {
	return f.change(f.is.without(first, last), f.l.DeleteRange(first, last))
}

// act does what raft does at random, as raft does it.
func (f *life) act() bool {
	last := f.is.last()
	switch n := f.rand.IntN(20); {
	case n == 0 && len(f.is) > 2: // a new leader's entries differ
		f.term++
		indexes := slices.Sorted(maps.Keys(f.is))
		from := indexes[len(indexes)-1-f.rand.IntN(min(len(f.is)-1, 20))]
		return f.remove(from, last) && f.store(from, 2, 200)
	case n == 1 && len(f.is) > 3: // a snapshot
		indexes := slices.Sorted(maps.Keys(f.is))
		return f.remove(indexes[0], indexes[f.rand.IntN(len(indexes)-1)])
	case n == 2 && f.rand.IntN(5) == 0 && len(f.is) > 0: // a snapshot of the leader, far ahead
		return f.remove(1, last) && f.store(last+100, 1, 10)
	case n == 3:
		return f.store(last+1, 3, 3000) // often larger than a file
	case n == 4 && f.rand.IntN(3) == 0: // the same, where old entries may stay
		return f.store(last+100, 2, 100)
	}
	return f.store(last+1, 1+f.rand.IntN(3), 300)
}

// die ends the process, kills others while they open the log, opens it in one of the two
// ways, and compares.
func (f *life) die(what string, power, settled bool) {
	f.t.Helper()
	kill(f.l)
	f.end(power)
	for range f.rand.IntN(4) {
		f.d.mu.Lock()
		f.d.left = f.rand.IntN(16)
		f.d.mu.Unlock()
		if err := f.enter(); err != nil && !errors.Is(err, errKilled) {
			f.t.Fatalf("acknowledged-entry-lost: %s: in the opening: %v", what, err)
		}
		f.end(power)
	}
	var log raft.LogStore
	if settled {
		log = behind{f.d.behind, f.d}
		if err := carryFolder(behind{f.d.behind, f.d}, f.d, testSize); err != nil {
			f.t.Fatalf("acknowledged-entry-lost: %s: %v", what, err)
		}
	} else {
		f.l = f.d.start(f.t)
		log = f.l
	}
	for _, s := range append([]state{f.is}, f.might...) {
		if s.differs(log) == "" {
			f.is, f.might = s, nil
			if settled {
				f.l = f.d.start(f.t)
			}
			return
		}
	}
	f.t.Fatalf("acknowledged-entry-lost: %s: %s (%d other states)", what, f.is.differs(log), len(f.might))
}

// enter opens the log in one of the two ways, and stops again, orderly or not.
func (f *life) enter() error {
	if f.rand.IntN(2) == 0 {
		return carryFolder(behind{f.d.behind, f.d}, f.d, testSize)
	}
	l, err := open(behind{f.d.behind, f.d}, f.d, testSize, cryptorand.Reader)
	if err != nil {
		return err
	}
	if f.rand.IntN(2) == 0 {
		return l.Close()
	}
	kill(l)
	return nil
}

// end ends a process that was killed, and the faults of its disk.
func (f *life) end(power bool) {
	f.d.mu.Lock()
	f.d.left, f.d.fails = -1, 0
	f.d.mu.Unlock()
	if power {
		f.d.crash()
	}
}

// seeds is how many histories are made; 16,000 others were made when this was written.
const seeds = 150

// TestNothingAcknowledgedIsLost kills the process, or takes the power away, at an
// operation of the disk at random, again and again; before that, disks fail or are full.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	for seed := range uint64(seeds) {
		d := newDisk(seed)
		f := &life{t: t, d: d, rand: rand.New(rand.NewPCG(seed, 1)), l: d.start(t), term: 1, is: state{}}
		for death := range 12 {
			d.mu.Lock()
			d.left = f.rand.IntN(60)
			if f.rand.IntN(3) == 0 {
				d.fails, d.fault = 0.1, syscall.ENOSPC
			}
			d.mu.Unlock()
			for f.act() || d.alive() {
				if diff := f.is.differs(f.l); diff != "" && d.alive() { // a dead one is compared below
					t.Fatalf("acknowledged-entry-lost: seed %d, death %d, before it: %s", seed, death, diff)
				}
			}
			f.die(fmt.Sprintf("seed %d, death %d", seed, death), f.rand.IntN(4) > 0, f.rand.IntN(3) == 0)
		}
		kill(f.l)
	}
}

func (d *simulated) alive() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left != 0
}

// TestLogTakesEntriesAgain: what fails once is no state of its own.
func TestLogTakesEntriesAgain(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		d := newDisk(1)
		l := d.start(t)
		s := state{}
		for index := uint64(1); index < 200; index++ {
			es := []*raft.Log{{Index: index, Term: index, Data: make([]byte, 100)}}
			d.mu.Lock()
			d.fails, d.fault = 1, fault
			d.mu.Unlock()
			if err := l.StoreLogs(es); !errors.Is(err, fault) {
				t.Fatalf("on a disk that fails: %v", err)
			}
			d.mu.Lock()
			d.fails = 0
			d.mu.Unlock()
			if err := l.StoreLogs(es); err != nil {
				t.Fatalf("entry %d after %v: %v", index, fault, err)
			}
			s = s.with(es)
		}
		if diff := s.differs(l); diff != "" {
			t.Error(diff)
		}
		kill(l)
	}
}

// TestFailedWriteIsNotFoundBehindADeletion: an entry whose write failed is on the disk
// all the same, and the entries before it, which bolt has, are deleted.
func TestFailedWriteIsNotFoundBehindADeletion(t *testing.T) {
	d := newDisk(1)
	l := d.start(t)
	s := state{}
	store := func(index uint64) error {
		es := []*raft.Log{{Index: index, Term: 1, Data: make([]byte, 100)}}
		err := l.StoreLogs(es)
		if err == nil {
			s = s.with(es)
		}
		return err
	}
	if err := errors.Join(store(1), store(2), store(3), l.carryAll()); err != nil {
		t.Fatal(err)
	}
	d.late = syscall.EIO
	if err := store(4); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	d.late = nil
	if err := l.DeleteRange(2, 3); err != nil {
		t.Fatal(err)
	}
	kill(l)
	d.crash()
	l = d.start(t)
	if diff := s.without(2, 3).differs(l); diff != "" {
		t.Errorf("hole-in-the-log: %s", diff)
	}
	kill(l)
}

// TestReadersSeeWhatIsAcknowledged reads while entries are written and carried over.
func TestReadersSeeWhatIsAcknowledged(t *testing.T) {
	d := newDisk(1)
	l := d.start(t)
	var acknowledged atomic.Uint64
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for at := uint64(1); at < 2000; {
				last := acknowledged.Load()
				if at > last {
					runtime.Gosched()
					continue
				}
				var e raft.Log
				if err := l.GetLog(at, &e); err != nil || e.Index != at ||
					!bytes.Equal(e.Data, bytes.Repeat([]byte{byte(at)}, 100)) {
					t.Errorf("entry %d of %d: %v, %v", at, last, e, err)
					return
				}
				if end, err := l.LastIndex(); err != nil || end < last {
					t.Errorf("it ends at %d, %d is acknowledged: %v", end, last, err)
					return
				}
				if first, err := l.FirstIndex(); err != nil || first != 1 {
					t.Errorf("it begins at %d: %v", first, err)
					return
				}
				at++
			}
		})
	}
	for index := uint64(1); index <= 2000; index++ {
		if err := l.StoreLog(&raft.Log{Index: index, Data: bytes.Repeat([]byte{byte(index)}, 100)}); err != nil {
			t.Fatal(err)
		}
		acknowledged.Store(index)
	}
	readers.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if last, err := d.behind.LastIndex(); last != 2000 || err != nil {
		t.Errorf("after an orderly end the log behind has %d entries: %v", last, err)
	}
}

// FuzzEntries reads bodies that nobody wrote.
func FuzzEntries(f *testing.F) {
	f.Add(batch([]*raft.Log{{Index: 1, Data: []byte("data"), Extensions: []byte("four")}, {Index: 2}})[headerLen:])
	f.Fuzz(func(t *testing.T, text []byte) {
		es, err := entries(text)
		if err != nil {
			return
		}
		if again := batch(es)[headerLen:]; !bytes.Equal(again, text) {
			t.Errorf("%x is read, and written as %x", text, again)
		}
	})
}
