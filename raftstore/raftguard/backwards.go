package raftguard

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// errNewTerm asks the leader to repeat a request after its first heartbeat.
var errNewTerm = errors.New("the term of the snapshot's leader is not known here yet")

// Follower keeps a follower from losing what it has applied. In hashicorp/raft 1.8 one that
// cannot store entries, its disk being full, answers as one does whose log differs: the
// leader goes back entry by entry to the beginning of its log and then sends its snapshot,
// which the follower installs, however old it is. Its state goes back, and it applies its log
// once more. The functions, what must be known of the peer, are called concurrently.
type Follower struct {
	Applied func() uint64             // index up to which the state is applied
	Term    func() uint64             // present term
	Failure func() (time.Time, error) // the newest failed write of the log and when it was; nil: none
}

// Answer answers a request that would set the follower back and returns true. It
// returns false for all others.
func (f Follower) Answer(rpc raft.RPC) bool {
	req, ok := rpc.Command.(*raft.InstallSnapshotRequest)
	term := f.Term()
	// What is applied is committed, so a snapshot of it brings nothing. A leader of
	// the past is refused by raft itself.
	if !ok || req.LastLogIndex > f.Applied() || req.Term < term {
		return false
	}
	go func() { // it ends with the connection
		// The next request comes behind the snapshot on the same connection.
		if _, err := io.Copy(io.Discard, rpc.Reader); err != nil {
			rpc.Respond(nil, fmt.Errorf("read a snapshot that is not needed: %w", err))
			return
		}
		if req.Term > term {
			rpc.Respond(nil, errNewTerm)
			return
		}
		rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			Term: term, Success: true}, nil)
	}()
	return true
}

// Amends returns what makes an error of the answer to a request whose entries could not be
// stored since this call: the leader then tries the same again, later. Of a request without
// entries it is nil.
func (f Follower) Amends(rpc raft.RPC) func(*raft.RPCResponse) {
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || len(req.Entries) == 0 {
		return nil
	}
	began := time.Now()
	return func(a *raft.RPCResponse) {
		resp, ok := a.Response.(*raft.AppendEntriesResponse)
		if at, err := f.Failure(); ok && a.Error == nil && !resp.Success && err != nil && !at.Before(began) {
			a.Error = fmt.Errorf("store entries: %w", err)
		}
	}
}
