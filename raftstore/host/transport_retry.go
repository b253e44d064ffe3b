package host

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/hashicorp/raft"
)

// freshTransport sends requests to peers that are authorized, and repeats those
// that failed for want of a living connection. Raft keeps the connections of
// earlier requests and does not look at them: after the other peer was started
// again its first requests end with an EOF. Raft does not repeat a vote request
// that was lost this way before the election timeout, for which no host's door is
// open; the first AppendEntries of a new leader waits longer after each connection
// that turns out dead.
type freshTransport struct {
	*raft.NetworkTransport
	net Network
}

var _ raft.WithPreVote = freshTransport{}

// AppendEntries implements raft.Transport. Entries that are there already change
// nothing.
func (t freshTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	return t.afresh(id, func() error { return t.NetworkTransport.AppendEntries(id, to, req, resp) })
}

// RequestVote implements raft.Transport. To ask for a vote twice is to ask once.
func (t freshTransport) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	return t.afresh(id, func() error { return t.NetworkTransport.RequestVote(id, to, req, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t freshTransport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	return t.afresh(id, func() error { return t.NetworkTransport.RequestPreVote(id, to, req, resp) })
}

// TimeoutNow implements raft.Transport. A peer that was told twice to be elected
// is a candidate once.
func (t freshTransport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, req *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse) error {
	return t.afresh(id, func() error { return t.NetworkTransport.TimeoutNow(id, to, req, resp) })
}

// InstallSnapshot implements raft.Transport.
func (t freshTransport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.net.Authorize(string(id)); err != nil {
		return err
	}
	return t.NetworkTransport.InstallSnapshot(id, to, req, resp, data)
}

// afresh makes a request of an authorized peer until it fails for another reason
// than that the far end has hung up: on each connection that was kept, and on a
// new one.
func (t freshTransport) afresh(id raft.ServerID, request func() error) (err error) {
	if err := t.net.Authorize(string(id)); err != nil {
		return err
	}
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed}
	for range connsPerPeer + 1 {
		err = request()
		if !slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
			return err
		}
	}
	return err
}
