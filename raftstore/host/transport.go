package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

// Values of connections between peers (docs/design.md#values).
const (
	connsPerPeer = 3
	rpcLimit     = 10 * time.Second
)

// Network accepts and makes the connections that raft speaks over, with both
// ends authenticated. Its methods may be called concurrently.
type Network interface {
	// AcceptPeer returns the next connection and the server ID that its other
	// end has proved; net.ErrClosed after Close.
	AcceptPeer() (conn net.Conn, peer string, err error)
	// DialPeer connects to the peer with this server ID, or fails: an address
	// at which another peer answers is not enough.
	DialPeer(ctx context.Context, id, hostport string) (net.Conn, error)
	// Authorize returns why no request may go to or come from a peer, nil if
	// requests may. It is asked for every request; it may take 2 s.
	Authorize(peer string) error
	// Close ends AcceptPeer and all connections.
	Close() error
}

// NewTransport returns raft's transport over n. self is this peer's own server
// address, ID@host:port.
func NewTransport(n Network, self string, log *slog.Logger) raftstore.Transport {
	out := freshTransport{newRaftTransport(newStream(n, self)), n}
	t := &boundTransport{freshTransport: out, net: n, self: self, log: log, consumer: make(chan raft.RPC),
		stop: make(chan struct{})}
	t.done.Go(t.accept)
	return t
}

func newRaftTransport(s raft.StreamLayer) *raft.NetworkTransport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          s,
		MaxPool:         connsPerPeer,
		MaxRPCsInFlight: 1, // pipelining would bypass the proof of leadership
		Timeout:         rpcLimit,
		Logger:          hclog.NewNullLogger(), // raft itself reports what fails
	})
}

// stream adapts a Network to raft's stream layer. It dials; what it accepts are
// the connections that it was given, at most one.
type stream struct {
	net    Network
	self   string
	given  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func newStream(n Network, self string, given ...net.Conn) *stream {
	s := &stream{net: n, self: self, given: make(chan net.Conn, 1)}
	s.closed, s.close = context.WithCancel(context.Background())
	for _, conn := range given {
		s.given <- conn
	}
	return s
}

// Dial implements raft.StreamLayer.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, hostport, ok := strings.Cut(string(address), "@")
	if !ok {
		return nil, fmt.Errorf("server address %q is not ID@host:port", address)
	}
	ctx, cancel := context.WithTimeout(s.closed, timeout)
	defer cancel()
	return s.net.DialPeer(ctx, id, hostport)
}

// Accept implements net.Listener.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.given:
		return conn, nil
	case <-s.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *stream) Close() error {
	s.close()
	return nil
}

// Addr implements net.Listener; raft tells it to the others as ours.
func (s *stream) Addr() net.Addr { return serverAddr(s.self) }

type serverAddr string

// Network implements net.Addr.
func (serverAddr) Network() string { return "trivet" }

// String implements net.Addr.
func (a serverAddr) String() string { return string(a) }
