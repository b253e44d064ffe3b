package httpserver

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// handshakes bounds those of a server that compute at a time: the goroutines of the log
// would wait for the keys and the signatures of all connections that begin together, of
// 500 for 0.2 s on two processors.
var handshakes = admission.Places{AtOnce: 2, Share: 1, Waiting: 1024, Wait: 10 * time.Second, Refusal: time.Second}

// shaking is a connection below TLS. It has a place in its server's line from the time when
// the client's first message is whole until the first answer, which needs the keys and the
// signature; so it has none while it waits for the client.
type shaking struct {
	net.Conn
	line   *admission.Line
	source netip.Prefix
	held   atomic.Bool
}

// enter waits for a place. Its errors are those of admission.Line.Enter.
func (c *shaking) enter(ctx context.Context) error {
	err := c.line.Enter(ctx, 0, c.source)
	c.held.Store(err == nil)
	return err
}

// leave gives the place up, if there is one.
func (c *shaking) leave() {
	if c.held.Swap(false) {
		c.line.Leave(c.source)
	}
}

// Write implements net.Conn.
func (c *shaking) Write(p []byte) (int, error) {
	c.leave()
	return c.Conn.Write(p)
}
