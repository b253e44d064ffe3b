package simtest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func batch(first, count uint64) (logs []*raft.Log) {
	for i := range count {
		logs = append(logs, &raft.Log{Index: first + i, Term: 1, Data: fmt.Appendf(nil, "entry %d", first+i)})
	}
	return logs
}

func last(t *testing.T, s *Store) uint64 {
	t.Helper()
	index, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestWritesAreDurableOnceTheyReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(NewRand(1))
		s := d.Mount(nil)
		err := errors.Join(s.StoreLogs(batch(1, 10)), s.DeleteRange(1, 3), s.StoreLogs(batch(20, 1)),
			s.SetUint64([]byte("term"), 7), s.Set([]byte("vote"), []byte("a")))
		if err != nil {
			t.Fatal(err)
		}
		d.Crash()
		s = d.Mount(nil)
		if first, err := s.FirstIndex(); first != 4 || err != nil {
			t.Errorf("first index %d, %v", first, err)
		}
		if got := last(t, s); got != 20 {
			t.Errorf("last index %d, not 20", got)
		}
		var e raft.Log
		if err := s.GetLog(4, &e); err != nil || string(e.Data) != "entry 4" {
			t.Errorf("entry 4 is %q, %v", e.Data, err)
		}
		if err := s.GetLog(15, &e); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry in the gap: %v", err)
		}
		if term, err := s.GetUint64([]byte("term")); term != 7 || err != nil {
			t.Errorf("term %d, %v", term, err)
		}
		if _, err := s.Get([]byte("nothing")); err == nil || err.Error() != "not found" {
			t.Errorf("a value never set: %v", err)
		}
	})
}

// The memory of caller and disk is never shared.
func TestDiskCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewDisk(NewRand(1)).Mount(nil)
		logs := batch(1, 1)
		if err := s.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
		clear(logs[0].Data)
		for range 2 {
			var e raft.Log
			if err := s.GetLog(1, &e); err != nil || string(e.Data) != "entry 1" {
				t.Fatalf("entry 1 is %q, %v", e.Data, err)
			}
			clear(e.Data)
		}
	})
}

// crashes returns which lengths a batch of ten has after a crash in its middle.
func crashes(t *testing.T, tear bool) []uint64 {
	seen := make(map[uint64]bool)
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			d := NewDisk(NewRand(seed))
			d.SetTear(tear)
			s := d.Mount(nil)
			done := make(chan error)
			go func() { done <- s.StoreLogs(batch(1, 10)) }()
			synctest.Wait()
			d.Crash()
			if err := <-done; !errors.Is(err, ErrCrashed) {
				t.Fatalf("an interrupted write returned %v", err)
			}
			seen[last(t, d.Mount(nil))] = true
		})
	}
	var lengths []uint64
	for n := range seen {
		lengths = append(lengths, n)
	}
	slices.Sort(lengths)
	return lengths
}

func TestCrashInTheMiddleOfAWrite(t *testing.T) {
	if got := crashes(t, false); !slices.Equal(got, []uint64{0, 10}) {
		t.Errorf("lengths after a crash: %v, want all or nothing", got)
	}
	if got := crashes(t, true); !slices.Equal(got, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("lengths after a torn write: %v, want each of 0 to 10", got)
	}
}

// Whatever a dead process does, its successor does not see it.
func TestStaleHandleIsInert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(NewRand(1))
		ghost := d.Mount(nil)
		if err := errors.Join(ghost.StoreLogs(batch(1, 2)), ghost.SetUint64([]byte("term"), 1)); err != nil {
			t.Fatal(err)
		}
		s := d.Mount(nil)
		if err := ghost.StoreLogs(batch(3, 1)); !errors.Is(err, ErrCrashed) {
			t.Errorf("a ghost's entries: %v", err)
		}
		if err := ghost.DeleteRange(1, 2); !errors.Is(err, ErrCrashed) {
			t.Errorf("a ghost's deletion: %v", err)
		}
		if err := ghost.SetUint64([]byte("term"), 2); err != nil {
			t.Errorf("a ghost's term: %v", err)
		}
		if term, _ := ghost.GetUint64([]byte("term")); term != 2 {
			t.Errorf("a ghost reads term %d, not its own 2", term)
		}
		if term, _ := s.GetUint64([]byte("term")); term != 1 {
			t.Errorf("the successor reads term %d, not 1", term)
		}
		if got := last(t, s); got != 2 {
			t.Errorf("the successor has entries up to %d, not 2", got)
		}
	})
}

func TestDiskFaults(t *testing.T) {
	snapshot := func(s *Store) error {
		sink, err := s.Snapshots().Create(1, 1, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			return err
		}
		return sink.Close()
	}
	writes := map[Op]func(*Store) error{
		OpLog:      func(s *Store) error { return s.StoreLogs(batch(1, 1)) },
		OpDelete:   func(s *Store) error { return s.DeleteRange(1, 1) },
		OpStable:   func(s *Store) error { return s.SetUint64([]byte("term"), 1) },
		OpSnapshot: snapshot,
		OpRead:     func(s *Store) error { _, err := s.LastIndex(); return err },
	}
	tests := []struct {
		name   string
		break_ func(*Disk, bool)
		fails  Op
		want   error
	}{
		{"full", (*Disk).Full, OpLog | OpDelete | OpSnapshot, syscall.ENOSPC},
		{"read-only", (*Disk).ReadOnly, OpWrite, syscall.EROFS},
		{"unreadable", func(d *Disk, on bool) { d.Fail(OpRead, fault(on, syscall.EIO)) }, OpRead, syscall.EIO},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDisk(NewRand(1))
				s := d.Mount(nil)
				for _, broken := range []bool{true, false} {
					test.break_(d, broken)
					for op, do := range writes {
						var want error
						if broken && test.fails&op != 0 {
							want = test.want
						}
						if err := do(s); !errors.Is(err, want) {
							t.Errorf("broken %v, operation %d: %v, want %v", broken, op, err, want)
						}
					}
				}
			})
		})
	}
}

func TestHungWriteCompletesOnThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(NewRand(1))
		s := d.Mount(nil)
		d.Hang()
		done := make(chan error, 1)
		go func() { done <- s.StoreLogs(batch(1, 1)) }()
		time.Sleep(time.Minute)
		if got := last(t, s); got != 0 || len(done) != 0 {
			t.Fatalf("a hung disk wrote up to entry %d", got)
		}
		d.Thaw()
		if err := <-done; err != nil || last(t, s) != 1 {
			t.Errorf("after the thaw: last index %d, %v", last(t, s), err)
		}
	})
}

// A write that began before the pause ends up on the disk, but the process
// does not learn of it; one after the pause does not begin.
func TestPausedProcessWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		s := NewDisk(NewRand(1)).Mount(gate)
		stored := func() int {
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			return len(s.content.logs)
		}
		done := make(chan error, 2)
		go func() { done <- s.StoreLogs(batch(1, 1)) }()
		synctest.Wait()
		gate.Pause()
		go func() { done <- s.StoreLogs(batch(2, 1)) }()
		time.Sleep(time.Minute)
		if stored() != 1 || len(done) != 0 {
			t.Errorf("in a stopped process: %d entries stored, %d writes returned", stored(), len(done))
		}
		gate.Resume()
		if err := errors.Join(<-done, <-done); err != nil || stored() != 2 {
			t.Errorf("after the pause: %d entries stored, %v", stored(), err)
		}
	})
}

func TestSlowDiskTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(NewRand(1))
		d.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		s, start := d.Mount(nil), time.Now()
		done := make(chan error)
		for i := range uint64(3) {
			go func() { done <- s.StoreLogs(batch(i+1, 1)) }()
		}
		if err := errors.Join(<-done, <-done, <-done); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 30*time.Millisecond {
			t.Errorf("three writes of 10 ms took %v", took)
		}
	})
}

func TestSnapshotsSurviveAndAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(NewRand(1))
		snaps := d.Mount(nil).Snapshots()
		for index := range uint64(3) {
			sink, err := snaps.Create(1, 10+index, 1, raft.Configuration{}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(sink, "state %d", 10+index); err != nil {
				t.Fatal(err)
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
		}
		unfinished, err := snaps.Create(1, 20, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Crash()
		if err := unfinished.Close(); !errors.Is(err, ErrCrashed) {
			t.Errorf("closing a snapshot after the crash: %v", err)
		}
		snaps = d.Mount(nil).Snapshots()
		metas, err := snaps.List()
		if err != nil || len(metas) != 2 || metas[0].Index != 12 || metas[1].Index != 11 {
			t.Fatalf("snapshots %v, %v; want 12 and 11", metas, err)
		}
		meta, r, err := snaps.Open(metas[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if string(data) != "state 12" || meta.Size != 8 || err != nil {
			t.Errorf("snapshot holds %q, size %d, %v", data, meta.Size, err)
		}
	})
}
