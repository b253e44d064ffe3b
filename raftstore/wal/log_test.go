package wal

import (
	"bytes"
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
		if got.Index != e.Index || got.Term != e.Term || got.Type != e.Type || !bytes.Equal(got.Data, e.Data) || !bytes.Equal(got.Extensions, e.Extensions) || !got.AppendedAt.Equal(e.AppendedAt) {
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
	d    *disk
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
		es[i] = &raft.Log{Index: first + uint64(i), Term: f.term, Type: raft.LogType(f.rand.IntN(3)), Data: make([]byte, f.rand.IntN(most+1)), Extensions: []byte("four")}
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

// die ends the process, opens the log again in one of the two ways, and compares.
func (f *life) die(what string, power, settled bool) {
	f.t.Helper()
	kill(f.l)
	f.d.mu.Lock()
	f.d.left, f.d.fails = -1, 0
	f.d.mu.Unlock()
	if power {
		f.d.crash()
	}
	var log raft.LogStore
	if f.l = f.d.open(f.t); settled {
		if err := f.l.carryAll(); err != nil {
			f.t.Fatal(err)
		}
		log = behind{f.d.behind, f.d}
	} else {
		log = f.l
	}
	for _, s := range append([]state{f.is}, f.might...) {
		if s.differs(log) == "" {
			f.is, f.might = s, nil
			return
		}
	}
	f.t.Fatalf("acknowledged-entry-lost: %s: %s (%d other states)", what, f.is.differs(log), len(f.might))
}

// seeds is how many histories are made; 6,000 others were made when this was written.
const seeds = 60

// TestNothingAcknowledgedIsLost kills the process, or takes the power away, at an
// operation of the disk at random, again and again; before that, disks fail or are full.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	for seed := range uint64(seeds) {
		d := newDisk(seed)
		f := &life{t: t, d: d, rand: rand.New(rand.NewPCG(seed, 1)), l: d.open(t), term: 1, is: state{}}
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

func (d *disk) alive() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left != 0
}

// filled returns a disk whose two files hold what the log behind does not have, and
// how many batches each has; a batch is an entry.
func filled(t *testing.T) (d *disk, older, newer int) {
	t.Helper()
	d = newDisk(1)
	l := &Log{behind: behind{d.behind, d}, files: d.both(), size: testSize, kick: make(chan struct{}, 1), by: map[uint64]*raft.Log{}, generation: 1}
	for index := uint64(1); l.generation == 1 || l.at.end < testSize/2; index++ {
		if err := l.StoreLog(&raft.Log{Index: index, Term: 1, Data: bytes.Repeat([]byte{byte(index)}, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.behind.LastIndex(); n != 0 || err != nil || len(l.older) == 0 || len(l.newer) == 0 {
		t.Fatalf("the log behind has %d entries: %v", n, err)
	}
	return d, len(l.older), len(l.newer)
}

// TestDamageIsFound changes each byte of the files in turn: the log is refused, or
// whole, or without the last batch, as after a crash while that was written. Nothing
// is different, and nothing else is missing.
func TestDamageIsFound(t *testing.T) {
	d, older, newer := filled(t)
	outcomes := map[string]int{}
	for n, f := range d.files {
		for at := range f.cached {
			f.cached[at] ^= 0x5a
			_, o, w, err := rest(behind{d.behind, d}, d.both(), testSize)
			f.cached[at] ^= 0x5a
			got := slices.Concat(o.entries, w.entries)
			for i, e := range got {
				if e.Index != uint64(i+1) || e.Term != 1 || !bytes.Equal(e.Data, bytes.Repeat([]byte{byte(e.Index)}, 100)) {
					t.Fatalf("damage-not-found: file %d, byte %d: entry %d is %v", n, at, i+1, e)
				}
			}
			switch missing := older + newer - len(got); {
			case errors.Is(err, ErrDamaged):
				outcomes["refused"]++
			case err != nil || missing > 1 || missing == 1 && len(w.entries) != newer-1:
				t.Fatalf("damage-not-found: file %d, byte %d: %d and %d of %d and %d: %v", n, at, len(o.entries), len(w.entries), older, newer, err)
			default:
				outcomes[fmt.Sprintf("without %d", missing)]++
			}
		}
	}
	if outcomes["refused"] < testSize || outcomes["without 0"] == 0 || outcomes["without 1"] == 0 || outcomes["without 1"] > 200 {
		t.Error(outcomes)
	}
}

// TestFilesOfAnotherTimeAreRefused: a file that is missing, the two exchanged, and a
// log behind that is older than the files.
func TestFilesOfAnotherTimeAreRefused(t *testing.T) {
	for name, change := range map[string]func(d *disk, files *[2]File){
		"the older is missing": func(_ *disk, files *[2]File) { files[1] = none{} },
		"exchanged":            func(_ *disk, files *[2]File) { files[0], files[1] = files[1], files[0] },
		"cut off":              func(d *disk, _ *[2]File) { d.files[1].cached = d.files[1].cached[:testSize/2] },
	} {
		d, _, _ := filled(t)
		files := d.both()
		change(d, &files)
		if _, _, _, err := rest(behind{d.behind, d}, files, testSize); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := newDisk(1)
	l := d.open(t)
	for index := range uint64(100) {
		if err := l.StoreLog(&raft.Log{Index: index + 1, Data: make([]byte, 200)}); err != nil {
			t.Fatal(err)
		}
	}
	kill(l)
	if _, _, _, err := rest(behind{newStored(), d}, d.both(), testSize); !errors.Is(err, ErrDamaged) {
		t.Errorf("of an older log behind: %v", err)
	}
}

// TestLogTakesEntriesAgain: what fails once is no state of its own.
func TestLogTakesEntriesAgain(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		d := newDisk(1)
		l := d.open(t)
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
	l := d.open(t)
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
	l = d.open(t)
	if diff := s.without(2, 3).differs(l); diff != "" {
		t.Errorf("hole-in-the-log: %s", diff)
	}
	kill(l)
}

// TestReadersSeeWhatIsAcknowledged reads while entries are written and carried over.
func TestReadersSeeWhatIsAcknowledged(t *testing.T) {
	d := newDisk(1)
	l := d.open(t)
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
				if err := l.GetLog(at, &e); err != nil || e.Index != at || !bytes.Equal(e.Data, bytes.Repeat([]byte{byte(at)}, 100)) {
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
	f.Add(body([]*raft.Log{{Index: 1, Data: []byte("data"), Extensions: []byte("four")}, {Index: 2}})[headerLen:])
	f.Fuzz(func(t *testing.T, text []byte) {
		es, err := entries(text)
		if err != nil {
			return
		}
		if again := body(es)[headerLen:]; !bytes.Equal(again, text) {
			t.Errorf("%x is read, and written as %x", text, again)
		}
	})
}
