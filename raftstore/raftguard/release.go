package raftguard

import "github.com/hashicorp/raft"

// Heartbeats returns a handler of heartbeats whose answers pass the gate. handle is the
// handler that gives them, at once or later. stop ends the wait for an answer.
func (g *Gate) Heartbeats(handle func(raft.RPC), stop <-chan struct{}) func(raft.RPC) {
	return func(rpc raft.RPC) {
		held, answers := hold(rpc)
		handle(held)
		g.release(rpc, answers, nil, stop) // the transport's goroutine would wait as well
	}
}

// Watch returns a request whose answer passes the gate if it asks for an acknowledgement, and
// any other request as it is. amend, which may be nil, may change the answer before. stop
// ends the wait for an answer.
func (g *Gate) Watch(rpc raft.RPC, amend func(*raft.RPCResponse), stop <-chan struct{}) raft.RPC {
	if _, ok := rpc.Command.(*raft.AppendEntriesRequest); !ok {
		return rpc
	}
	held, answers := hold(rpc)
	go g.release(rpc, answers, amend, stop) // it ends with the answer or with stop
	return held
}

// hold returns a request whose answer comes to us.
func hold(rpc raft.RPC) (held raft.RPC, answers <-chan raft.RPCResponse) {
	c := make(chan raft.RPCResponse, 1) // the only answer, which raft must not wait with
	held = rpc
	held.RespChan = c
	return held, c
}

// release waits for the answer to a request, stamps it and passes it on.
func (g *Gate) release(rpc raft.RPC, answers <-chan raft.RPCResponse, amend func(*raft.RPCResponse),
	stop <-chan struct{}) {
	select {
	case a := <-answers:
		if amend != nil {
			amend(&a)
		}
		// The leader counts the answers of its own term for a proof, also where its entries did not
		// fit. One that may not leave becomes an error.
		req, ok := rpc.Command.(*raft.AppendEntriesRequest)
		resp, answered := a.Response.(*raft.AppendEntriesResponse)
		if ok && answered && a.Error == nil && resp.Term == req.Term {
			if err := g.Pass(req.Term); err != nil {
				a = raft.RPCResponse{Error: err}
			}
		}
		rpc.RespChan <- a
	case <-stop:
		rpc.Respond(nil, raft.ErrTransportShutdown)
	}
}
