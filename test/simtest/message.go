package simtest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// message is one raft request on its way.
type message struct {
	ctx     context.Context // the sender's timeout
	from    string          // the sending host
	request any             // a copy that belongs to the receiver
	stream  []byte          // of InstallSnapshot alone
	answer  chan answer     // room for one

	// Place among the arrivals; nil for a heartbeat.
	turn   <-chan struct{} // closed when the one before has passed
	passed chan struct{}   // to be closed when this one has
}

type answer struct {
	response any
	err      error
}

// line keeps goroutines in the order in which they joined.
type line struct {
	mu   sync.Mutex
	last chan struct{} // closed when the newest has passed
}

// join returns a channel that is closed when it is the caller's turn, and one
// that the caller must close after that.
func (l *line) join() (turn <-chan struct{}, passed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = make(chan struct{})
		close(l.last)
	}
	turn, passed = l.last, make(chan struct{})
	l.last = passed
	return turn, passed
}

// twin returns a copy of m whose answer nobody reads.
func (m *message) twin() *message {
	d := &message{ctx: m.ctx, from: m.from, stream: m.stream, answer: make(chan answer, 1)}
	switch r := m.request.(type) {
	case *raft.AppendEntriesRequest:
		d.request = copyAppendEntries(r)
	case *raft.RequestVoteRequest:
		d.request = copyRequestVote(r)
	case *raft.RequestPreVoteRequest:
		d.request = copyRequestPreVote(r)
	case *raft.TimeoutNowRequest:
		d.request = copyTimeoutNow(r)
	case *raft.InstallSnapshotRequest:
		d.request = copyInstallSnapshot(r)
	}
	return d
}

// torn returns a twin whose stream ends after n bytes.
func (m *message) torn(n int) *message {
	d := m.twin()
	d.stream = d.stream[:n:n]
	return d
}

// isHeartbeat is the rule of raft's NetworkTransport: an AppendEntries that
// says nothing but who leads.
func isHeartbeat(request any) bool {
	r, ok := request.(*raft.AppendEntriesRequest)
	return ok && r.Term != 0 && len(r.Addr) > 0 &&
		r.PrevLogEntry == 0 && r.PrevLogTerm == 0 && len(r.Entries) == 0 && r.LeaderCommitIndex == 0
}

// remote turns an error into what is left of it after a wire: its text.
func remote(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

func copyHeader(h raft.RPCHeader) raft.RPCHeader {
	h.ID, h.Addr = bytes.Clone(h.ID), bytes.Clone(h.Addr)
	return h
}

func copyAppendEntries(r *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	c := *r
	c.RPCHeader = copyHeader(r.RPCHeader)
	if r.Entries != nil {
		c.Entries = make([]*raft.Log, len(r.Entries))
	}
	for i, e := range r.Entries {
		c.Entries[i] = copyLog(e)
	}
	return &c
}

func copyRequestVote(r *raft.RequestVoteRequest) *raft.RequestVoteRequest {
	c := *r
	c.RPCHeader = copyHeader(r.RPCHeader)
	return &c
}

func copyRequestPreVote(r *raft.RequestPreVoteRequest) *raft.RequestPreVoteRequest {
	c := *r
	c.RPCHeader = copyHeader(r.RPCHeader)
	return &c
}

func copyTimeoutNow(r *raft.TimeoutNowRequest) *raft.TimeoutNowRequest {
	return &raft.TimeoutNowRequest{RPCHeader: copyHeader(r.RPCHeader)}
}

func copyInstallSnapshot(r *raft.InstallSnapshotRequest) *raft.InstallSnapshotRequest {
	c := *r
	c.RPCHeader = copyHeader(r.RPCHeader)
	c.Peers, c.Configuration = bytes.Clone(r.Peers), bytes.Clone(r.Configuration)
	return &c
}

// copyResponse copies a response of raft; anything else becomes nil.
func copyResponse(response any) any {
	switch r := response.(type) {
	case *raft.AppendEntriesResponse:
		c := *r
		c.RPCHeader = copyHeader(r.RPCHeader)
		return &c
	case *raft.RequestVoteResponse:
		c := *r
		c.RPCHeader, c.Peers = copyHeader(r.RPCHeader), bytes.Clone(r.Peers)
		return &c
	case *raft.RequestPreVoteResponse:
		c := *r
		c.RPCHeader = copyHeader(r.RPCHeader)
		return &c
	case *raft.InstallSnapshotResponse:
		c := *r
		c.RPCHeader = copyHeader(r.RPCHeader)
		return &c
	case *raft.TimeoutNowResponse:
		return &raft.TimeoutNowResponse{RPCHeader: copyHeader(r.RPCHeader)}
	}
	return nil
}

// copyLog copies an entry as a wire or a disk would: the bytes are its own,
// and the monotonic clock reading is gone.
func copyLog(e *raft.Log) *raft.Log {
	c := *e
	c.Data, c.Extensions = bytes.Clone(e.Data), bytes.Clone(e.Extensions)
	c.AppendedAt = e.AppendedAt.Round(0)
	return &c
}
