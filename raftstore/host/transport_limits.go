package host

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// boundTransport passes a request to raft only if the peer that the request
// names is the peer whose certificate the connection proved, and that peer may
// speak raft at this moment. Raft itself believes what a request says of its
// sender: with any certificate of the cluster one could lead it.
//
// raft.NetworkTransport does not tell by which connection a request came, so
// each accepted connection has a transport of its own.
type boundTransport struct {
	freshTransport // sends
	net            Network
	self           string
	log            *slog.Logger

	consumer  chan raft.RPC // never closed; raft stops reading it at shutdown
	heartbeat atomic.Pointer[func(raft.RPC)]
	stop      chan struct{} // closed by Close
	once      sync.Once
	done      sync.WaitGroup
	said      atomic.Int64 // when a refusal was logged last, Unix nanoseconds
}

var _ raft.WithPreVote = (*boundTransport)(nil)

// refusalLog is the pause between two warnings about refused requests.
const refusalLog = time.Minute

// Consumer implements raft.Transport.
func (t *boundTransport) Consumer() <-chan raft.RPC { return t.consumer }

// SetHeartbeatHandler implements raft.Transport.
func (t *boundTransport) SetHeartbeatHandler(handle func(raft.RPC)) { t.heartbeat.Store(&handle) }

// Close implements raft.WithClose; raft calls it at shutdown.
func (t *boundTransport) Close() error {
	var err error
	t.once.Do(func() {
		close(t.stop)
		err = errors.Join(t.NetworkTransport.Close(), t.net.Close())
		t.done.Wait()
	})
	return err
}

// accept serves every connection until the network is closed.
func (t *boundTransport) accept() {
	for {
		conn, peer, err := t.net.AcceptPeer()
		if err != nil {
			return // AcceptPeer fails only once the network is closed
		}
		t.done.Go(func() { t.serve(conn, peer) })
	}
}

// serve passes on the requests of one connection until either side ends it.
func (t *boundTransport) serve(conn net.Conn, peer string) {
	closing := &closingConn{Conn: conn, closed: make(chan struct{})}
	in := newRaftTransport(newStream(t.net, t.self, closing))
	defer func() { _ = errors.Join(in.Close(), closing.Close()) }() // nothing depends on how it ends
	in.SetHeartbeatHandler(func(rpc raft.RPC) { t.pass(rpc, peer, closing, t.heartbeat.Load()) })
	for {
		select {
		case rpc := <-in.Consumer():
			t.pass(rpc, peer, closing, nil)
		case <-closing.closed:
			return
		case <-t.stop:
			return
		}
	}
}

// pass gives raft a request, through its handler of heartbeats where there is
// one. A request that is refused ends its connection, and so serve.
func (t *boundTransport) pass(rpc raft.RPC, peer string, conn *closingConn, heartbeat *func(raft.RPC)) {
	err := sentBy(peer, rpc.Command)
	if err == nil {
		err = t.net.Authorize(peer)
	}
	if err != nil {
		err = fmt.Errorf("refuse %T of peer %s: %w", rpc.Command, peer, err)
		now := time.Now().UnixNano()
		if last := t.said.Load(); now-last > int64(refusalLog) && t.said.CompareAndSwap(last, now) {
			t.log.Warn("raft request refused, connection closed", "peer", peer, "err", err)
		}
		rpc.Respond(nil, err)
		_ = conn.Close()
		return
	}
	if heartbeat != nil {
		(*heartbeat)(rpc)
		return
	}
	select {
	case t.consumer <- rpc:
	case <-conn.closed:
	case <-t.stop:
	}
}

// sentBy returns an error unless every name of the sender in a request is that
// of the peer. Raft takes the leader or the candidate from any of them.
func sentBy(peer string, command any) error {
	request, ok := command.(raft.WithRPCHeader)
	if !ok {
		return errors.New("it names no sender")
	}
	header := request.GetRPCHeader()
	if id := string(header.ID); id != peer {
		return fmt.Errorf("it names %q as its sender", id)
	}
	addresses := [][]byte{header.Addr}
	switch c := command.(type) { // what raft 1.2 and older filled
	case *raft.AppendEntriesRequest:
		//lint:ignore SA1019 raft reads it where Addr is empty
		addresses = append(addresses, c.Leader)
	case *raft.RequestVoteRequest:
		//lint:ignore SA1019 raft reads it where Addr is empty
		addresses = append(addresses, c.Candidate)
	case *raft.InstallSnapshotRequest:
		addresses = append(addresses, c.Leader)
	}
	for _, address := range addresses {
		if id, _, _ := strings.Cut(string(address), "@"); len(address) > 0 && id != peer {
			return fmt.Errorf("it gives %q as its sender's address", address)
		}
	}
	return nil
}

// closingConn tells when it was closed.
type closingConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{} // closed by Close
}

// Close implements net.Conn.
func (c *closingConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
