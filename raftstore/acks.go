package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ack is the newest request of one voter that was sent and answered in a term.
type ack struct {
	term uint64
	sent time.Time // taken before the request left
	seq  uint64    // order of sends in this process; breaks ties of the clock
}

// ackTable remembers, per peer, the send time of the newest acknowledged
// AppendEntries. It is what Confirm counts: not the time an answer came in,
// which says nothing about a process that was stopped meanwhile.
type ackTable struct {
	mu      sync.Mutex
	seq     uint64
	newest  map[raft.ServerID]ack
	matched map[raft.ServerID]match
	changed chan struct{} // closed and replaced at every acknowledgement
}

// match is up to where a server's log was seen to be equal to ours in a term.
type match struct {
	term, index uint64
}

func newAckTable() *ackTable {
	return &ackTable{newest: make(map[raft.ServerID]ack), matched: make(map[raft.ServerID]match), changed: make(chan struct{})}
}

// sending stamps a request that is about to leave.
func (t *ackTable) sending(term uint64) ack {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	return ack{term: term, sent: time.Now(), seq: t.seq}
}

// mark returns the number of the newest send: later sends have a greater one.
func (t *ackTable) mark() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// answered records that a peer acknowledged a request in the term it was sent in.
func (t *ackTable) answered(id raft.ServerID, a ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.newest[id]; old.seq > a.seq {
		return
	}
	t.newest[id] = a
	close(t.changed)
	t.changed = make(chan struct{})
}

// count returns how many of the peers acknowledged, in exactly this term, a
// request sent after t0 or later than mark, and a channel that is closed at
// the next acknowledgement.
func (t *ackTable) count(peers []raft.ServerID, term uint64, t0 time.Time, mark uint64) (int, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, id := range peers {
		a, ok := t.newest[id]
		if ok && a.term == term && (a.sent.After(t0) || a.seq > mark) {
			n++
		}
	}
	return n, t.changed
}

// silentFor returns the age of the newest request that a peer acknowledged.
func (t *ackTable) silentFor(id raft.ServerID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.newest[id].sent)
}

// stored records that a server's log equals ours up to index, in a term.
func (t *ackTable) stored(id raft.ServerID, term, index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.matched[id]; old.term > term || old.term == term && old.index >= index {
		return
	}
	t.matched[id] = match{term, index}
}

// matchedBy returns up to where a server's log was seen to equal ours in a term.
func (t *ackTable) matchedBy(id raft.ServerID, term uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.matched[id]; m.term == term {
		return m.index
	}
	return 0
}
