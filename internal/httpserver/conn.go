package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

var errHeaderLines = errors.New("the head of a request has too many lines")

// conn is a connection within the bounds of its listener. Where there is TLS it
// stands above it, since lines of a head can be counted only there.
type conn struct {
	net.Conn           // tls, or accepted
	accepted net.Conn  // by the listener
	tls      *tls.Conn // nil: in the clear
	below    *shaking  // what tls stands on
	over     func()    // ends the wait of begin
	limits   Limits

	once  sync.Once
	begin func() error // waits for the connection's turn; nil: it need not
	begun error        // of the wait and the handshake

	held *admission.Holding // idle while the connection waits for a request or the rest of its head

	// inHead says that a head is expected or arrives. net/http reads from one
	// goroutine at a time, so the fields below need no lock.
	inHead atomic.Bool
	fresh  atomic.Bool // the next head has not begun
	lines  int         // of the present head
	filled bool        // the present line has a character

	// arrived is when the present request came at the earliest: a client counts its time from
	// then, also while the connection waited for its turn. It is zero while none is here.
	// net/http's goroutine alone uses it.
	arrived time.Time
}

// Arrived returns when the request of a context came at the earliest: for the first of a
// connection, when that was accepted. Where no Server serves it, it comes now.
func Arrived(ctx context.Context) time.Time {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.arrived
	}
	return time.Now()
}

// changed hears of net/http's states.
func (c *conn) changed(state http.ConnState) {
	switch state {
	case http.StateIdle:
		c.fresh.Store(true)
		c.inHead.Store(true)
		c.held.Idle(true)
		c.arrived = time.Time{}
	case http.StateActive:
		if c.arrived.IsZero() {
			c.arrived = time.Now()
		}
		c.held.Idle(false)
	}
}

// Read implements net.Conn. It fails when a head has more lines than
// maxHeaderLines: net/http bounds the bytes of a head, but 32 KiB of short lines
// take a MiB when they are parsed.
func (c *conn) Read(p []byte) (int, error) {
	if c.once.Do(c.start); c.begun != nil {
		return 0, c.begun
	}
	n, err := c.Conn.Read(p)
	if c.scan(p[:n]) {
		return n, err
	}
	const answer = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n431 Request Header Fields Too Large: more than 100 lines\n"
	_, err = c.Write([]byte(answer))
	// As a failure to read, it makes net/http close without an answer of its own.
	return 0, &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: errors.Join(errHeaderLines, err)}
}

// scan counts the lines of a head and finds its end; it returns false at a line
// too many. Elsewhere it only follows where lines begin, for the next head.
func (c *conn) scan(p []byte) bool {
	if c.fresh.Swap(false) {
		c.lines = 0
	}
	if !c.inHead.Load() {
		// The end alone is looked at: a body has megabytes.
		if end := bytes.TrimRight(p, "\r"); len(end) > 0 {
			c.filled = end[len(end)-1] != '\n'
		}
		return true
	}
	for n, b := range p {
		switch {
		case b != '\n':
			c.filled = c.filled || b != '\r'
			continue
		case c.filled:
			c.lines++
		case c.lines > 0: // else an empty line before the request line, which counts for nothing
			c.inHead.Store(false)
			return c.scan(p[n+1:])
		}
		c.filled = false
		if c.lines > maxHeaderLines {
			return false
		}
	}
	return true
}

// start waits for the connection's turn and makes the handshake.
func (c *conn) start() {
	if c.begin != nil {
		if err := c.begin(); err != nil {
			c.begun = &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: err}
			return
		}
	}
	if c.tls != nil {
		c.begun = c.shake()
	}
}

// shake makes the TLS handshake, within the deadline that net/http has set for
// the head.
func (c *conn) shake() error {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.limits.Header)); err != nil {
		return err
	}
	defer c.below.leave()                               // one that failed may have answered nothing
	err := c.tls.HandshakeContext(context.Background()) // the deadlines bound it
	if err == nil {
		return nil
	}
	inClear := []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"} // how a request begins
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && slices.Contains(inClear, string(plain.RecordHeader[:])) {
		const answer = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
		_, failed := plain.Conn.Write([]byte(answer))
		err = errors.Join(err, failed)
	}
	return &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}

// Write implements net.Conn. Each piece has a deadline of its own, so that an
// answer may last as long as the caller takes it.
func (c *conn) Write(p []byte) (written int, err error) {
	for first := true; first || len(p) > 0; first = false {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.limits.Write)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[:min(len(p), writePiece)])
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
	}
	return written, nil
}

// CloseWrite ends the sending half: net/http sends its last answer so, before it
// closes.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	return half.CloseWrite()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.over()
	c.held.Leave()
	return c.Conn.Close()
}
