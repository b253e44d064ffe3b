package timedlog

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestDamagedEntryIsNoticed(t *testing.T) {
	inner := raft.NewInmemStore()
	log := New(inner)
	for name, damage := range map[string]func(*raft.Log){
		"data": func(e *raft.Log) { e.Data = []byte("hellp") },
		"type": func(e *raft.Log) { e.Type = raft.LogNoop },
		"term": func(e *raft.Log) { e.Term++ },
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
}
