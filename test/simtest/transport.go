package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// snapshotScale is raft.DefaultTimeoutScale: one more rpcTimeout for each of
// these bytes of a snapshot.
const snapshotScale = raft.DefaultTimeoutScale

// Transport is one process's port on a Network. It implements raft.Transport
// with what raft's own in-memory transport lacks: heartbeats go to their
// handler on a goroutine of their own, every peer gets its own copy of the
// data, and the process can be stopped (Gate).
//
// While its process is paused, requests wait in front of raft, answers wait
// before they leave, and what comes back waits before raft sees it; all of it
// is delivered at Resume. As with real connections the sender's time-out runs
// on, and a request whose sender has given up is delivered all the same. The
// number of waiting requests is bounded by the callers: raft sends one at a
// time per peer and purpose, each for at most rpcTimeout.
type Transport struct {
	net       *Network
	id        string // of the host
	addr      raft.ServerAddress
	gate      *Gate
	consumer  chan raft.RPC // never closed
	heartbeat atomic.Pointer[func(raft.RPC)]
	arrivals  line
	ctx       context.Context // ends when the process does
	sever     context.CancelFunc
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

func newTransport(n *Network, id string, addr raft.ServerAddress, gate *Gate) *Transport {
	t := &Transport{net: n, id: id, addr: addr, gate: gate, consumer: make(chan raft.RPC)}
	t.ctx, t.sever = context.WithCancel(context.Background())
	return t
}

// Close ends the process as far as the network can tell. Everything that
// waits in the transport, on either side, returns at once; a heartbeat that
// raft is busy with ends when raft has answered it. To kill a process, close
// its transport first, so that nothing it still thinks gets out.
func (t *Transport) Close() error {
	t.sever()
	return nil
}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.consumer }

// LocalAddr implements raft.Transport.
func (t *Transport) LocalAddr() raft.ServerAddress { return t.addr }

// EncodePeer implements raft.Transport.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (t *Transport) SetHeartbeatHandler(handle func(raft.RPC)) { t.heartbeat.Store(&handle) }

// AppendEntriesPipeline implements raft.Transport; Trivet does not pipeline
// (docs/design.md#proof).
func (t *Transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(_ raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	took := t.net.transit(req)
	time.Sleep(min(took, rpcTimeout))
	if took >= rpcTimeout {
		return context.DeadlineExceeded
	}
	return call(t, to, rpcTimeout-took, &message{request: copyAppendEntries(req)}, resp)
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(_ raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	return call(t, to, rpcTimeout, &message{request: copyRequestVote(req)}, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	return call(t, to, rpcTimeout, &message{request: copyRequestPreVote(req)}, resp)
}

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, req *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse) error {
	return call(t, to, rpcTimeout, &message{request: copyTimeoutNow(req)}, resp)
}

// InstallSnapshot implements raft.Transport. The stream is read here and
// copied. If the request is lost, a part of the stream arrives and then the
// connection breaks.
func (t *Transport) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	stream, err := io.ReadAll(io.LimitReader(data, req.Size))
	if err != nil {
		return fmt.Errorf("read the snapshot to send: %w", err)
	}
	limit := max(rpcTimeout, rpcTimeout*time.Duration(req.Size/snapshotScale))
	return call(t, to, limit, &message{request: copyInstallSnapshot(req), stream: stream}, resp)
}

// call sends m and fills resp with the answer.
func call[R any](t *Transport, to raft.ServerAddress, limit time.Duration, m *message, resp *R) error {
	if !t.gate.Wait(t.ctx.Done()) { // a stopped process sends nothing
		return raft.ErrTransportShutdown
	}
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	m.ctx, m.from, m.answer = ctx, t.id, make(chan answer, 1)
	a := t.exchange(to, m)
	// … and learns nothing, good or bad, before it continues.
	if !t.gate.Wait(t.ctx.Done()) || t.ctx.Err() != nil {
		return raft.ErrTransportShutdown
	}
	if r, ok := a.response.(*R); ok && r != nil {
		*resp = *r
	}
	if a.err != nil {
		return fmt.Errorf("from %s to %s: %w", t.addr, to, a.err)
	}
	return nil
}

// exchange carries m to its destination and waits for the answer.
func (t *Transport) exchange(to raft.ServerAddress, m *message) answer {
	peer := t.net.at(to)
	if peer == nil {
		return answer{err: ErrRefused}
	}
	err := t.net.flows(m.ctx, t.id, m.request)
	if err == nil {
		err = t.net.carry(m.ctx, t.id, peer.id)
	}
	if peer = t.net.at(to); err == nil && peer.ctx.Err() != nil {
		err = ErrRefused
	}
	if errors.Is(err, ErrReset) && m.stream != nil {
		peer.accept(m.torn(t.net.rng.IntN(len(m.stream) + 1)))
	}
	if err != nil {
		return answer{err: err}
	}
	if m.stream == nil && t.net.happens(t.net.quality(t.id, peer.id).Duplicate) {
		peer.accept(m.twin())
	}
	peer.accept(m)
	select {
	case a := <-m.answer:
		return a
	case <-m.ctx.Done():
		return answer{err: m.ctx.Err()}
	case <-peer.ctx.Done():
		return answer{err: ErrReset}
	}
}

// accept takes a request in at the instant of its arrival. Raft gets requests
// in this order, except that heartbeats overtake.
func (t *Transport) accept(m *message) {
	if !isHeartbeat(m.request) || t.heartbeat.Load() == nil {
		m.turn, m.passed = t.arrivals.join()
	}
	go t.serve(m)
}

// serve hands one request to raft and carries the answer back. It runs on its
// own goroutine and ends when the answer has left, or with the process.
func (t *Transport) serve(m *message) {
	response, err := t.handle(m)
	if _, ok := m.request.(*raft.AppendEntriesRequest); ok && t.net.acknowledges != nil {
		t.net.acknowledges(t.id)
	}
	if !t.gate.Wait(t.ctx.Done()) {
		return // the caller sees the connection break
	}
	if lost := t.net.carry(m.ctx, t.id, m.from); lost != nil {
		response, err = nil, lost
	}
	m.answer <- answer{response: copyResponse(response), err: err} // has room for the only one
}

// handle passes a request to raft and waits for its response.
func (t *Transport) handle(m *message) (any, error) {
	if !t.gate.Wait(t.ctx.Done()) {
		return nil, ErrReset
	}
	responses := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: m.request, RespChan: responses}
	if m.stream != nil {
		rpc.Reader = bytes.NewReader(m.stream)
	}
	if m.passed == nil {
		(*t.heartbeat.Load())(rpc)
	} else if !t.enqueue(m, rpc) {
		return nil, ErrReset
	}
	select {
	case r := <-responses:
		return r.Response, remote(r.Error)
	case <-t.ctx.Done():
		return nil, ErrReset
	}
}

// enqueue passes a request to raft's main loop when its turn has come, or
// returns false if the process ended before.
func (t *Transport) enqueue(m *message, rpc raft.RPC) bool {
	select {
	case <-m.turn:
	case <-t.ctx.Done():
		return false
	}
	defer close(m.passed)
	select {
	case t.consumer <- rpc:
		return true
	case <-t.ctx.Done():
		return false
	}
}
