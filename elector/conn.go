package elector

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// errOver breaks a connection in the place of an answer whose time has come.
var errOver = errors.New("the answer was over before it was sent")

// connKey finds a request's connection in its context.
type connKey struct{}

// until says that what the connection sends next is over when the word is.
func until(ctx context.Context, w Word) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return // a test's, or a listener that Bounded did not make
	}
	if w.Name == "" {
		c.over.Store(0) // nobody is safe to name at any time
		return
	}
	c.over.Store(int64(w.Until))
}

// Bounded accepts what ln does, at most maxConns at once, on connections that send
// no answer which is over.
func Bounded(ln net.Listener, now Clock) net.Listener {
	return &bounded{Listener: ln, now: now, free: make(chan struct{}, maxConns)}
}

type bounded struct {
	net.Listener
	now  Clock
	free chan struct{} // holds one for each connection
}

// Accept implements net.Listener. Whoever comes when there are too many is hung up
// on: to wait would look like a name that is confirmed for long.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &conn{Conn: c, now: b.now, leave: sync.OnceFunc(func() { <-b.free })}, nil
		default:
			_ = c.Close() // an error would end the server: whoever is hung up on is no reason to
		}
	}
}

// conn is a connection whose answers have a time.
type conn struct {
	net.Conn
	now   Clock
	over  atomic.Int64 // reading of now; 0: never
	leave func()
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if over := time.Duration(c.over.Load()); over != 0 && c.now() >= over {
		return 0, errors.Join(errOver, c.Close())
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
