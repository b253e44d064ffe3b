package simtest

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// notebook is where the workers of one host's processes leave word; it outlives
// them. What a process that was killed still says is not heard.
type notebook struct {
	mu      sync.Mutex
	process int
	notes   map[fencing.Token]string
	// examined are the documents that the present process examines, and at which
	// hook; suspects, those that the earlier ones did when they ended.
	examined, suspects map[blobs.Hash]string
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
func (b *notebook) begin() (*notes, []introspection.Unfinished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []introspection.Unfinished
	for request, hook := range b.notes {
		left = append(left, introspection.Unfinished{Request: request, Hook: hook})
	}
	slices.SortFunc(left, func(a, b introspection.Unfinished) int { return cmp.Compare(a.Request, b.Request) })
	b.process++
	b.notes = make(map[fencing.Token]string)
	if b.suspects == nil {
		b.suspects = make(map[blobs.Hash]string)
	}
	maps.Copy(b.suspects, b.examined)
	b.examined = make(map[blobs.Hash]string)
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

// Examine implements inspector.Memory.
func (n *notes) Examine(document blobs.Hash) bool {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	_, suspect := n.book.suspects[document]
	_, under := n.book.examined[document]
	if suspect || under || n.process != n.book.process {
		return false
	}
	n.book.examined[document] = ""
	return true
}

// At implements inspector.Memory.
func (n *notes) At(document blobs.Hash, hook string) {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if n.process == n.book.process {
		n.book.examined[document] = hook
	}
}

// Clear implements inspector.Memory.
func (n *notes) Clear(document blobs.Hash) {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if n.process == n.book.process {
		delete(n.book.examined, document)
	}
}

// Suspect implements inspector.Memory.
func (n *notes) Suspect(document blobs.Hash) (hook string, yes bool) {
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	hook, yes = n.book.suspects[document]
	return hook, yes
}
