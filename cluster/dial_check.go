package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Greet opens a new connection to another peer's port, proves who is there, and
// hangs up: what a connection that is kept cannot tell, since firewalls let what
// is established pass.
func (f *Forwarder) Greet(ctx context.Context, m membership.Member) error {
	conn, err := dialTLS(ctx, f.access.network, m.Address, pki.ClientTLS(f.access.end, m.ID, protocolHTTP))
	if err != nil {
		return err
	}
	return conn.Close()
}

// Knock opens a connection to a port and hangs up.
func Knock(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// pings is how often gossip is asked before it counts as silent: datagrams get
// lost.
const pings = 3

// Ping asks the gossip of another peer for an answer, by UDP. Each try takes at
// most half a second; it stops early when ctx ends.
func (g *Gossip) Ping(ctx context.Context, m membership.Member) error {
	at, err := net.ResolveUDPAddr("udp", m.Gossip)
	if err != nil {
		return err
	}
	begun := time.Now()
	for range pings {
		if _, err = g.list.Ping(m.ID, at); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("no answer to %d pings within %v: %w", pings, time.Since(begun).Round(time.Millisecond), err)
}
