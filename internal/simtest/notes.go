package simtest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
)

// notebook is where the workers of one host's processes leave word; it outlives
// them. What a process that was killed still says is not heard.
type notebook struct {
	mu      sync.Mutex
	process int
	notes   map[fencing.Token]string
	// examined are the documents that the present process examines; true: that
	// an earlier one examined when it ended.
	examined map[fsm.Hash]bool
}

// notes are those of one process.
type notes struct {
	book    *notebook
	process int
}

// end is the death of a process.
func (b *notebook) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process++
}

// begin gives a new process its notes, and what the last one left.
func (b *notebook) begin() (*notes, []fsm.Unfinished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []fsm.Unfinished
	for request, hook := range b.notes {
		left = append(left, fsm.Unfinished{Request: request, Hook: hook})
	}
	slices.SortFunc(left, func(a, b fsm.Unfinished) int { return cmp.Compare(a.Request, b.Request) })
	b.process++
	b.notes = make(map[fencing.Token]string)
	if b.examined == nil {
		b.examined = make(map[fsm.Hash]bool)
	}
	for document := range b.examined {
		b.examined[document] = true
	}
	return &notes{b, b.process}, left
}

// Note implements inspector.Notes.
func (n *notes) Note(request fencing.Token, hook string) error {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if n.process == n.book.process {
		n.book.notes[request] = hook
	}
	return nil
}

// Forget implements inspector.Notes.
func (n *notes) Forget(request fencing.Token) {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if n.process == n.book.process {
		delete(n.book.notes, request)
	}
}

// Examine implements inspector.Suspects.
func (n *notes) Examine(document fsm.Hash) bool {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if _, known := n.book.examined[document]; known || n.process != n.book.process {
		return false
	}
	n.book.examined[document] = false
	return true
}

// Clear implements inspector.Suspects.
func (n *notes) Clear(document fsm.Hash) {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if n.process == n.book.process {
		delete(n.book.examined, document)
	}
}
