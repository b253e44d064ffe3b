package raftguard

import (
	"strings"
	"testing"

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
