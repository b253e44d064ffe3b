package host

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

// absentPoll is how often a request that is held looks whether it is still
// wanted. An answer of the peer that it is for wakes it at once.
const absentPoll = 50 * time.Millisecond

// errUnwanted ends a held request whose sender leads no more, or whose peer has
// left the configuration. Nothing was sent.
var errUnwanted = errors.New("this leader no longer replicates to that peer")

// Replicator tells what raft on this peer is up to; *raftstore.Store is one.
type Replicator interface {
	Stats() raftstore.Stats
	Servers() []raftstore.Server
}

// PatientTransport holds what would go to a peer that is away until that peer
// answers a heartbeat. Raft 1.8 counts what fails and waits longer before each
// attempt, up to 10 s, and nothing but a success resets the count: a peer that
// comes back after half a minute would wait as long again for its entries, and with
// it an operator who upgrades one host after the other. A request that is held does
// not fail. Heartbeats are never held; raft sends them from goroutines of their
// own, and waits at most half a heartbeat timeout after one that failed.
type PatientTransport struct {
	raftstore.Transport

	mu   sync.Mutex
	lost map[raft.ServerID]chan struct{} // closed at the next answer of that peer

	replicator atomic.Pointer[Replicator]
}

var _ raft.WithPreVote = (*PatientTransport)(nil)

// Patient wraps a transport. It holds nothing before Follow.
func Patient(inner raftstore.Transport) *PatientTransport {
	return &PatientTransport{Transport: inner, lost: make(map[raft.ServerID]chan struct{})}
}

// Follow names the peer whose raft uses the transport. It may be called while
// raft does.
func (t *PatientTransport) Follow(r Replicator) { t.replicator.Store(&r) }

// AppendEntries implements raft.Transport.
func (t *PatientTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if !heartbeat(req) {
		if err := t.awaitAnswer(id, req.Term); err != nil {
			return err
		}
	}
	err := t.Transport.AppendEntries(id, to, req, resp)
	t.noteAnswer(id, err == nil)
	return err
}

// InstallSnapshot implements raft.Transport. Its failures count like those of
// entries.
func (t *PatientTransport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.awaitAnswer(id, req.Term); err != nil {
		return err
	}
	return t.Transport.InstallSnapshot(id, to, req, resp, data)
}

// heartbeat tells what raft sends to be heard of alone, as raft's own transport
// tells it.
func heartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

// noteAnswer keeps whether a peer answered the newest request.
func (t *PatientTransport) noteAnswer(id raft.ServerID, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	back, lost := t.lost[id]
	switch {
	case answered && lost:
		delete(t.lost, id)
		close(back)
	case !answered && !lost:
		t.lost[id] = make(chan struct{})
	}
}

// awaitAnswer returns when a peer that was lost has answered. It is bounded by the
// leadership: a goroutine of raft that is held after that would be missing at
// its shutdown.
func (t *PatientTransport) awaitAnswer(id raft.ServerID, term uint64) error {
	for {
		t.mu.Lock()
		back, lost := t.lost[id]
		t.mu.Unlock()
		if !lost {
			return nil
		}
		if !t.replicates(id, term) {
			return errUnwanted
		}
		select {
		case <-back:
		case <-time.After(absentPoll):
		}
	}
}

// replicates reports whether raft here leads in a term and sends to a peer.
func (t *PatientTransport) replicates(id raft.ServerID, term uint64) bool {
	r := t.replicator.Load()
	if r == nil {
		return false
	}
	if now := (*r).Stats(); now.Role != raft.Leader.String() || now.Term != term {
		return false
	}
	return slices.ContainsFunc((*r).Servers(), func(s raftstore.Server) bool { return s.ID == string(id) })
}
