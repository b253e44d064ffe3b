package raftguard

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Ack is the newest request of one voter that was sent and answered in a term.
type Ack struct {
	term uint64
	sent time.Time // taken before the request left
	seq  uint64    // order of sends in this process; breaks ties of the clock
}

// Acks remembers, per peer, the send time of the newest acknowledged
// AppendEntries: what a proof of leadership and the progress of followers rest on. Raft's
// VerifyLeader counts answers to heartbeats that were sent before it was called, and those of
// non-voters; and when an answer came in says nothing about a process that was stopped
// meanwhile. It may be used concurrently.
type Acks struct {
	mu      sync.Mutex
	seq     uint64
	newest  map[raft.ServerID]Ack
	matched map[raft.ServerID]match
	changed chan struct{} // closed at the next acknowledgement; nil while no goroutine waits for it
}

// match is up to where a server's log was seen to be equal to ours in a term.
type match struct {
	term, index uint64
}

// NewAcks returns a table of no acknowledgement.
func NewAcks() *Acks {
	return &Acks{newest: make(map[raft.ServerID]Ack), matched: make(map[raft.ServerID]match)}
}

// Sending stamps a request that is about to leave.
func (t *Acks) Sending(term uint64) Ack {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	return Ack{term: term, sent: time.Now(), seq: t.seq}
}

// Mark returns the number of the newest send: later sends have a greater one.
func (t *Acks) Mark() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// Answered records that a peer acknowledged a request in the term it was sent in.
func (t *Acks) Answered(id raft.ServerID, a Ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.newest[id]; old.seq > a.seq {
		return
	}
	t.newest[id] = a
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Count returns how many of the peers acknowledged, in exactly this term, a
// request sent after t0 or later than mark, and a channel that is closed at
// the next acknowledgement.
func (t *Acks) Count(peers []raft.ServerID, term uint64, t0 time.Time, mark uint64) (int, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, id := range peers {
		a, ok := t.newest[id]
		if ok && a.term == term && (a.sent.After(t0) || a.seq > mark) {
			n++
		}
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return n, t.changed
}

// SilentFor returns the age of the newest request that a peer acknowledged.
func (t *Acks) SilentFor(id raft.ServerID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.newest[id].sent)
}

// Stored records that a server's log equals ours up to index, in a term.
func (t *Acks) Stored(id raft.ServerID, term, index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.matched[id]; old.term > term || old.term == term && old.index >= index {
		return
	}
	t.matched[id] = match{term, index}
}

// MatchedBy returns up to where a server's log was seen to equal ours in a term.
func (t *Acks) MatchedBy(id raft.ServerID, term uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.matched[id]; m.term == term {
		return m.index
	}
	return 0
}
