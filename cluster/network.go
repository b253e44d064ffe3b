package cluster

import (
	"cmp"
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Network makes the connections of the peers' port. Its methods may be called
// concurrently.
type Network interface {
	// Listen binds host:port. The connections that it accepts end when their other end
	// acknowledges nothing for silentLimit.
	Listen(ctx context.Context, address string) (net.Listener, error)
	// Dial connects to host:port. endsWhenSilent says that the connection shall end when
	// its other end acknowledges nothing for silentLimit.
	Dial(ctx context.Context, address string, endsWhenSilent bool) (net.Conn, error)
}

// HostNetwork is TCP on this host.
type HostNetwork struct{}

// Listen implements Network.
func (HostNetwork) Listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive, Control: endWhenSilent}
	return lc.Listen(ctx, "tcp", address)
}

// Dial implements Network.
func (HostNetwork) Dial(ctx context.Context, address string, endsWhenSilent bool) (net.Conn, error) {
	d := net.Dialer{KeepAlive: keepAlive}
	if endsWhenSilent {
		d.Control = endWhenSilent
	}
	return d.DialContext(ctx, "tcp", address)
}

// silentLimit is after which time the kernel ends an HTTP/2 connection between
// peers whose other end acknowledges nothing. TCP repeats what a broken network has
// swallowed at ever longer intervals: once the network is back, a connection would
// carry nothing for as long as the cut lasted, and a session, whose renewals it
// carries, would end. After silentLimit each attempt dials again.
//
// Connections that raft dials have no such limit: a peer whose disk hangs takes no
// data, which counts as silence, and raft has limits of its own; see Port.Redial.
const silentLimit = 3 * time.Second

// endWhenSilent sets silentLimit on a socket, and on those that it accepts.
func endWhenSilent(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentLimit.Milliseconds()))
	})
	return cmp.Or(err, set)
}
