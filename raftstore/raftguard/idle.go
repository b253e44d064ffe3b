package raftguard

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Idle holds back requests by which a leader tells a follower nothing. After each commit
// timeout raft sends one without entries, so that followers learn how far the log is
// committed: next to the heartbeats, more often than these, and also when nothing happens.
//
// One that says what the follower has acknowledged leaves as soon as an entry is to be
// written, so that the entry does not wait behind it, and else once in Most: a follower that
// was started again does not know what the one before it was told. Heartbeats are never
// held, and nothing is while leadership is being handed on: raft has the goroutine that
// holds a request replicate what the target lacks, and gives up after an election timeout.
// The methods may be called concurrently, the fields are set before.
type Idle struct {
	Log  *Log
	Most time.Duration   // zero: nothing is held
	Stop <-chan struct{} // closed when nothing is held any more

	mu      sync.Mutex
	told    map[raft.ServerID]told
	hurry   chan struct{} // closed when something hurries; nil while no request is held
	hurried int           // what hurries: transfers of leadership
}

// told is what a follower acknowledged last with success.
type told struct {
	term, last, committed uint64
	sent                  time.Time
}

// Await returns when a request to a follower is to be sent.
func (i *Idle) Await(id raft.ServerID, req *raft.AppendEntriesRequest) {
	if i.Most == 0 || req.PrevLogEntry == 0 || len(req.Entries) > 0 {
		return
	}
	sent, hurry := i.knows(id, req)
	left := i.Most - time.Since(sent)
	more, grows := i.Log.GrownBeyond(req.PrevLogEntry)
	if left <= 0 || more {
		return
	}
	select {
	case <-grows:
	case <-hurry:
	case <-time.After(left):
	case <-i.Stop:
	}
}

// Hurry lets what is held go, and holds nothing until done is called.
func (i *Idle) Hurry() (done func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.hurried++; i.hurried == 1 && i.hurry != nil {
		close(i.hurry)
		i.hurry = nil
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.hurried--
	}
}

// knows returns when a follower was sent what it has acknowledged, if that is all that a
// request would tell it and nothing hurries, else the zero time; hurry is closed when
// something does.
func (i *Idle) knows(id raft.ServerID, req *raft.AppendEntriesRequest) (sent time.Time, hurry <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	t := i.told[id]
	if i.hurried > 0 || t.term != req.Term || t.last != req.PrevLogEntry || t.committed != req.LeaderCommitIndex {
		return time.Time{}, nil
	}
	if i.hurry == nil {
		i.hurry = make(chan struct{})
	}
	return t.sent, i.hurry
}

// Sent notes what became of a request: the answer, or why there is none.
func (i *Idle) Sent(id raft.ServerID, req *raft.AppendEntriesRequest, stamp Ack, resp *raft.AppendEntriesResponse,
	err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err != nil || resp.Term != req.Term || !resp.Success:
		delete(i.told, id)
	case req.PrevLogEntry > 0 || len(req.Entries) > 0: // else it compared nothing: a heartbeat
		if i.told == nil {
			i.told = make(map[raft.ServerID]told)
		}
		i.told[id] = told{term: req.Term, last: req.PrevLogEntry + uint64(len(req.Entries)),
			committed: req.LeaderCommitIndex, sent: stamp.sent}
	}
}
