package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func open(t *testing.T, path string) (*Box, []introspection.Unfinished) {
	t.Helper()
	b, left, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // a test may have closed it
	return b, left
}

func note(t *testing.T, b *Box, request fencing.Token, hook string) {
	t.Helper()
	if err := b.Note(request, hook); err != nil {
		t.Fatal(err)
	}
}

func TestNextProcessReadsTheNewestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	b, left := open(t, path)
	if len(left) > 0 {
		t.Errorf("a new box holds %v", left)
	}
	note(t, b, 7, "scheduler")
	note(t, b, 8, "lldp_basic")
	note(t, b, 7, strings.Repeat("h", introspection.MaxHook))
	// The process is killed: nothing is closed.
	next, left := open(t, path)
	want := []introspection.Unfinished{{Request: 7, Hook: strings.Repeat("h", introspection.MaxHook)},
		{Request: 8, Hook: "lldp_basic"}}
	if !slices.Equal(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
	note(t, next, 9, "scheduler")
	if _, left := open(t, path); !slices.Equal(left, []introspection.Unfinished{{Request: 9, Hook: "scheduler"}}) {
		t.Errorf("the process after that read %v", left)
	}
}

func TestBoxIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	b, _ := open(t, path)
	for n := range membership.MaxUnfinished {
		note(t, b, fencing.Token(n+1), fmt.Sprint("hook", n))
	}
	if b.Note(membership.MaxUnfinished+1, "one more") == nil {
		t.Error("a full box took a note")
	}
	if b.Note(1, strings.Repeat("h", introspection.MaxHook+1)) == nil {
		t.Error("a name that the log refuses was noted")
	}
	b.Forget(3)
	b.Forget(3)
	note(t, b, membership.MaxUnfinished+1, "one more")
	if b.Note(membership.MaxUnfinished+2, "two more") == nil {
		t.Error("a place was given away twice")
	}
	if _, left := open(t, path); len(left) != membership.MaxUnfinished {
		t.Errorf("%d notes are left, want %d", len(left), membership.MaxUnfinished)
	}
}

// What a power cut leaves may be anything.
func TestDamagedNotesAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	b, _ := open(t, path)
	for n := range fencing.Token(4) {
		note(t, b, n+1, "scheduler")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[recordSize+nameAt]++          // of the second
	clear(raw[2*recordSize:][:sumAt]) // of the third
	if err := os.WriteFile(path, raw[:len(raw)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, left := open(t, path); !slices.Equal(left, []introspection.Unfinished{{Request: 1, Hook: "scheduler"}}) {
		t.Errorf("left: %v, want only the first", left)
	}
}

// A document is examined before it has a request: what kills the process then is
// a suspect for the next one.
func TestNextProcessKnowsTheSuspects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	b, _ := open(t, path)
	fine, deadly, early := blobs.HashOf([]byte("fine")), blobs.HashOf([]byte("deadly")), blobs.HashOf([]byte("early"))
	for _, document := range []blobs.Hash{fine, deadly, early} {
		if !b.Examine(document) {
			t.Fatalf("%v is not examined", document)
		}
	}
	if b.Examine(deadly) {
		t.Error("a document is examined twice at once")
	}
	b.At(deadly, "first")
	b.At(deadly, strings.Repeat("h", introspection.MaxHook))
	b.Clear(fine)
	note(t, b, 7, "scheduler") // in the place of the one that is fine
	next, left := open(t, path)
	if !slices.Equal(left, []introspection.Unfinished{{Request: 7, Hook: "scheduler"}}) {
		t.Errorf("left: %v", left)
	}
	for document, want := range map[blobs.Hash]string{deadly: strings.Repeat("h", introspection.MaxHook), early: ""} {
		if hook, yes := next.Suspect(document); !yes || hook != want || next.Examine(document) {
			t.Errorf("suspect %v at %q, want %q", yes, hook, want)
		}
	}
	if _, yes := next.Suspect(fine); yes || !next.Examine(fine) || !next.Examine(blobs.HashOf([]byte("new"))) {
		t.Error("an innocent document is not examined")
	}
}

func TestExaminedDocumentsAreBounded(t *testing.T) {
	b, _ := open(t, filepath.Join(t.TempDir(), "notes"))
	for n := range membership.MaxUnfinished {
		if !b.Examine(blobs.HashOf([]byte{byte(n), byte(n >> 8)})) {
			t.Fatalf("document %d is not examined", n)
		}
	}
	if b.Examine(blobs.HashOf([]byte("one more"))) || b.Note(1, "scheduler") == nil {
		t.Error("a full box took a note")
	}
}
