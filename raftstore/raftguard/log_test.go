package raftguard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestDamagedEntryIsNoticed(t *testing.T) {
	inner := raft.NewInmemStore()
	log := NewLog(inner)
	for name, damage := range map[string]func(*raft.Log){
		"data": func(e *raft.Log) { e.Data = []byte("hellp") },
		"type": func(e *raft.Log) { e.Type = raft.LogNoop },
		"term": func(e *raft.Log) { e.Term++ },
		"sum":  func(e *raft.Log) { e.Extensions = nil },
	} {
		if err := log.StoreLog(&raft.Log{Index: 7, Term: 2, Data: []byte("hello")}); err != nil {
			t.Fatal(err)
		}
		var e raft.Log
		if err := log.GetLog(7, &e); err != nil {
			t.Fatalf("an undamaged entry: %v", err)
		}
		damage(&e)
		if err := inner.StoreLog(&e); err != nil {
			t.Fatal(err)
		}
		if err := log.GetLog(7, &e); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("damaged %s: got %v, want an error about the checksum", name, err)
		}
	}
	misplaced := displaced{inner}
	var e raft.Log
	if err := log.StoreLog(&raft.Log{Index: 8, Term: 2, Data: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	if err := NewLog(misplaced).GetLog(7, &e); err == nil || !strings.Contains(err.Error(), "entry 8 is in its place") {
		t.Errorf("another entry in its place: %v", err)
	}
}

// displaced has each entry in the place of the one before it.
type displaced struct{ raft.LogStore }

func (d displaced) GetLog(index uint64, e *raft.Log) error { return d.LogStore.GetLog(index+1, e) }

// slow is a store whose disk takes its time.
type slow struct {
	raft.LogStore
	takes time.Duration
}

func (s *slow) StoreLogs(es []*raft.Log) error {
	time.Sleep(s.takes) // in a bubble
	return s.LogStore.StoreLogs(es)
}

// TestNewestWritesAreTimed: one that is slow does not count, many do, and what is long ago does
// not any more.
func TestNewestWritesAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slow{LogStore: raft.NewInmemStore()}
		log := NewLog(disk)
		if took := log.Took(); took != 0 {
			t.Errorf("before the first write: %v", took)
		}
		index := uint64(0)
		write := func(n int, takes time.Duration) time.Duration {
			disk.takes = takes
			for range n {
				index++
				if err := log.StoreLog(&raft.Log{Index: index, Term: 1}); err != nil {
					t.Fatal(err)
				}
			}
			return log.Took()
		}
		for _, c := range []struct {
			writes int
			takes  time.Duration
			want   time.Duration
		}{{1, time.Second, time.Second}, {9, time.Millisecond, time.Millisecond},
			{40, 20 * time.Millisecond, 20 * time.Millisecond},
			{3, time.Second, 20 * time.Millisecond}, {newestWrites, time.Millisecond, time.Millisecond}} {
			if got := write(c.writes, c.takes); got != c.want {
				t.Errorf("took: after %d writes of %v: %v, want %v", c.writes, c.takes, got, c.want)
			}
		}
	})
}

// What no snapshot covers counts as much after a restart as before: raft reads all of it once,
// and of what is read again nothing counts twice.
func TestBytesOutliveARestart(t *testing.T) {
	disk := raft.NewInmemStore()
	entry := func(index uint64) *raft.Log { return &raft.Log{Index: index, Term: 1, Data: make([]byte, 100)} }
	before := NewLog(disk)
	for index := range uint64(10) {
		if err := before.StoreLog(entry(index + 1)); err != nil {
			t.Fatal(err)
		}
	}
	after := NewLog(disk)
	read := func(index uint64) {
		if err := after.GetLog(index, new(raft.Log)); err != nil {
			t.Fatal(err)
		}
	}
	read(10)
	for index := range uint64(10) {
		read(index + 1)
	}
	after.Counted()
	read(3)
	if after.Bytes() != before.Bytes() {
		t.Errorf("log-bytes: %d after a restart, %d before", after.Bytes(), before.Bytes())
	}
	if err := after.StoreLog(entry(11)); err != nil {
		t.Fatal(err)
	}
	read(11)
	if want := before.Bytes() + 100; after.Bytes() != want {
		t.Errorf("log-bytes: %d after one entry more, want %d", after.Bytes(), want)
	}
}
