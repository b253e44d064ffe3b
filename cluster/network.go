package cluster

import (
	"context"
	"net"
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
