package fsm

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/valid"
)

// Whatever stands in the log, Decode ends with a command that Encode accepts
// or with an UnknownEntryError, and Apply keeps the invariants.
func FuzzDecode(f *testing.F) {
	for _, c := range samples(f) {
		f.Add(encoded(f, Header{Time: 1, WallMillis: 2}, c))
	}
	f.Add([]byte{formatV1, 0xfe, 0xa0})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, c, err := Decode(data)
		if err != nil {
			var unknown *UnknownEntryError
			if !errors.As(err, &unknown) || c != nil {
				t.Fatalf("%v is not an UnknownEntryError", err)
			}
		} else if _, err := Encode(h, c); err != nil {
			t.Fatalf("%+v was decoded and cannot be encoded: %v", c, err)
		}
		founded := founding()
		state, err := Founded(founded, time.UnixMilli(1))
		if err != nil {
			t.Fatal(err)
		}
		state.Apply(Entry{Index: 2, Term: 1, Data: data})
		if err := state.View().Check(); err != nil {
			// Check reads documents, which Apply does not: a wrong one is
			// found when it is read, and is no contradiction of the tables.
			p := &valid.Problems{}
			checkTables(state.now.txn(), p)
			if p.Err() != nil {
				t.Fatal(err)
			}
		}
	})
}

// Whatever stands in a file, Read ends with a state that is consistent and
// writes itself again, or with a SnapshotError.
func FuzzReadSnapshot(f *testing.F) {
	f.Add(snapshot(f, busy(f).view()))
	f.Add(snapshot(f, New().View()))
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := Read(bytes.NewReader(data))
		if err != nil {
			var damage *SnapshotError
			if !errors.As(err, &damage) || state != nil {
				t.Fatalf("%v is not a SnapshotError", err)
			}
			return
		}
		again, err := Read(bytes.NewReader(snapshot(t, state.View())))
		if err != nil || again.View().Hash() != state.View().Hash() {
			t.Fatalf("it does not survive its own snapshot: %v", err)
		}
	})
}

// FuzzReadRecords gets past the checksum, so that records themselves are
// fuzzed: a state that contradicts itself is refused, never loaded or crashed on.
func FuzzReadRecords(f *testing.F) {
	for record := range busy(f).state.now.records() {
		f.Add(bytes.Clone(record))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		if len(record) < 6 {
			return
		}
		section, known := sectionOf(record[0])
		if !known {
			return
		}
		d := *New().now
		if err := section.Load(d.txn(), record[5:]); err != nil {
			return
		}
		p := &valid.Problems{}
		checkTables(d.txn(), p)
		if p.Err() == nil {
			View{&d}.Hash()
		}
	})
}
