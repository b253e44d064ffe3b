package elector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// errOver breaks a connection in the place of an answer whose time has come.
var errOver = errors.New("the answer was over before it was sent")

// connKey finds a request's connection in its context.
type connKey struct{}

// until ends what the connection sends next when the claim ends.
func until(ctx context.Context, w Claim) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return // a test's, or a listener that Timed did not make
	}
	if w.Name == "" {
		c.over.Store(0) // an answer without a name is safe at any time
		return
	}
	c.over.Store(int64(w.Until))
}

// Timed accepts what ln does, on connections that send no answer which is over.
func Timed(ln net.Listener, now Clock) net.Listener { return &timed{ln, now} }

type timed struct {
	net.Listener
	now Clock
}

// Accept implements net.Listener.
func (t *timed) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, now: t.now}, nil
}

// conn is a connection whose answers have a time.
type conn struct {
	net.Conn
	now  Clock
	over atomic.Int64 // reading of now; 0: never
}

// SyscallConn implements syscall.Conn: the server looks at the descriptor's number.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T has no descriptor", c.Conn)
	}
	return raw.SyscallConn()
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if over := time.Duration(c.over.Load()); over != 0 && c.now() >= over {
		return 0, errors.Join(errOver, c.Close())
	}
	return c.Conn.Write(b)
}
