package host

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore"
)

// Values of connections between peers (design §6).
const (
	connsPerPeer = 3
	rpcLimit     = 10 * time.Second
)

// Network accepts and makes the streams that raft speaks over. Whoever
// implements it has authenticated both ends.
type Network interface {
	net.Listener
	// DialPeer connects to the peer with this server ID, or fails: an address
	// at which another peer answers is not enough.
	DialPeer(ctx context.Context, id, hostport string) (net.Conn, error)
}

// NewTransport returns raft's transport over n. self is this peer's own server
// address, ID@host:port.
func NewTransport(n Network, self string) raftstore.Transport {
	return freshTransport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          stream{n, self},
		MaxPool:         connsPerPeer,
		MaxRPCsInFlight: 1, // pipelining would bypass the proof of leadership
		Timeout:         rpcLimit,
		Logger:          hclog.NewNullLogger(), // raft itself reports what fails
	})}
}

// stream adapts Network to raft's stream layer.
type stream struct {
	Network
	self string
}

// Dial implements raft.StreamLayer.
func (s stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, hostport, ok := strings.Cut(string(address), "@")
	if !ok {
		return nil, fmt.Errorf("server address %q is not ID@host:port", address)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.DialPeer(ctx, id, hostport)
}

// Addr implements net.Listener; raft tells it to the others as ours.
func (s stream) Addr() net.Addr { return serverAddr(s.self) }

type serverAddr string

// Network implements net.Addr.
func (serverAddr) Network() string { return "trivet" }

// String implements net.Addr.
func (a serverAddr) String() string { return string(a) }
