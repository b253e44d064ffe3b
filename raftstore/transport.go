package raftstore

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// provingTransport stamps what it sends, so that Confirm can prove leadership, and what it
// acknowledges, so that a later leader learns when an earlier one can have proven it last,
// and can be told to stop acting as a leader (mute) or as a candidate (refuse).
// It overrides nothing else: pre-vote stays on through the embedded Transport.
type provingTransport struct {
	Transport
	sending
	gate  *raftguard.Gate      // of what this peer acknowledges
	terms *raftguard.TermGuard // set before raft starts, as is self
	self  raftguard.Follower
	log   raft.LogStore
	snaps raft.SnapshotStore
	raft  atomic.Pointer[raft.Raft] // nil before it has started

	muted      atomic.Bool // fails outgoing AppendEntries, InstallSnapshot and votes
	abdicating atomic.Bool // the same, for a leader that nothing is wrong with
	refusing   atomic.Bool // fails outgoing votes and incoming TimeoutNow

	consumer chan raft.RPC // closed never; raft stops reading it at shutdown
	stop     chan struct{} // closed by Close
	once     sync.Once
	done     sync.WaitGroup
}

// sending is what is known of requests to followers.
type sending struct {
	acks *raftguard.Acks
	idle raftguard.Idle // set before raft starts

	transfers raftguard.Transfers
}

var _ raft.WithPreVote = (*provingTransport)(nil)

func newProvingTransport(inner Transport, st Storage, gate *raftguard.Gate) *provingTransport {
	return &provingTransport{
		Transport: inner,
		log:       st.Log,
		snaps:     st.Snapshots,
		sending:   sending{acks: raftguard.NewAcks()},
		gate:      gate,
		consumer:  make(chan raft.RPC),
		stop:      make(chan struct{}),
	}
}

// Consumer implements raft.Transport.
func (t *provingTransport) Consumer() <-chan raft.RPC { return t.consumer }

// SetHeartbeatHandler implements raft.Transport.
func (t *provingTransport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.Transport.SetHeartbeatHandler(t.gate.Heartbeats(t.terms.Heartbeats(handle, t.consumer, t.stop), t.stop))
}

// relay passes incoming requests on, but answers a TimeoutNow itself while
// this peer refuses to lead: raft would become a candidate without any vote
// asked for first, and its term would unseat the sitting leader.
func (t *provingTransport) relay() {
	in := t.Transport.Consumer()
	for {
		select {
		case rpc := <-in:
			if _, ok := rpc.Command.(*raft.TimeoutNowRequest); ok && t.silent() {
				rpc.Respond(nil, logerr.ErrMuted)
				continue
			}
			if t.self.Answer(rpc) {
				continue
			}
			rpc = t.gate.Watch(rpc, t.self.Amends(rpc), t.stop)
			if req, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
				rpc.Command = raftguard.AfterSnapshot(t.log, t.snaps, raftguard.ShownCommitted(req))
			} else if r := t.raft.Load(); r != nil {
				rpc.Command = raftguard.JudgedByLog(rpc.Command, r.GetConfiguration().Configuration())
			}
			select {
			case t.consumer <- rpc:
			case <-t.stop:
				rpc.Respond(nil, raft.ErrTransportShutdown)
				return
			}
		case <-t.stop:
			return
		}
	}
}

// Close implements raft.WithClose; raft calls it at shutdown.
func (t *provingTransport) Close() error {
	t.once.Do(func() { close(t.stop) })
	err := t.Transport.Close()
	t.done.Wait()
	return err
}

// dumb says whether this peer sends nothing as a leader, silent whether it sends
// nothing as a candidate.
func (t *provingTransport) dumb() bool { return t.muted.Load() || t.abdicating.Load() }

func (t *provingTransport) silent() bool { return t.dumb() || t.refusing.Load() }

// AppendEntries implements raft.Transport. An answer counts as proof only if
// request and answer carry the same term: a peer that has seen a later term
// answers with that one.
func (t *provingTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	// Raft's own request is cut, and first: what is sent may be a copy.
	full := len(req.Entries) == maxAppendEntries
	cut := raftguard.LimitBytes(req, raftguard.MaxRequestBytes)
	req = raftguard.ShownCommitted(req)
	t.idle.Await(id, req)
	if t.dumb() {
		return logerr.ErrMuted
	}
	sent := t.acks.Sending(req.Term)
	err := t.Transport.AppendEntries(id, to, req, resp)
	t.idle.Sent(id, req, sent, resp, err)
	if err != nil {
		return err
	}
	if resp.Term == req.Term {
		t.acks.Answered(id, sent)
		if n := len(req.Entries); resp.Success && (n > 0 || req.PrevLogEntry > 0) {
			t.acks.Stored(id, req.Term, req.PrevLogEntry+uint64(n))
			if !full && !cut { // raft has no more for this round
				t.transfers.Stored(req.Term, id)
			}
		}
	}
	return nil
}

// AppendEntriesPipeline implements raft.Transport. Pipelining would bypass
// AppendEntries, and buys nothing on a LAN.
func (t *provingTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// InstallSnapshot implements raft.Transport.
func (t *provingTransport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if t.dumb() {
		return logerr.ErrMuted
	}
	return t.Transport.InstallSnapshot(id, to, req, resp, data)
}

// RequestVote implements raft.Transport.
func (t *provingTransport) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	if t.silent() {
		return logerr.ErrMuted
	}
	return t.Transport.RequestVote(id, to, req, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *provingTransport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	if t.silent() {
		return logerr.ErrMuted
	}
	return t.Transport.RequestPreVote(id, to, req, resp)
}
