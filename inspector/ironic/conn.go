package ironic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// maxHints bounds the answers of status 1xx before the one that counts.
const maxHints = 5

// conn is a connection that carries one request at a time. It belongs to who
// took it from the transport, until the answer's body is closed.
type conn struct {
	transport *transport
	to        string   // scheme and host
	net       net.Conn // the wire, or TLS over it
	wire      net.Conn // closed as it is: a goodbye could wait for a host that is gone
	in        *bufio.Reader
	out       *bufio.Writer
	since     time.Time       // resting
	ctx       context.Context // of the request under way
	left      int64           // bytes that may still be read; see Read
}

func newConn(t *transport, u *url.URL, secure, wire net.Conn) *conn {
	c := &conn{transport: t, to: u.Scheme + "://" + u.Host, net: secure, wire: wire}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(c)
	return c
}

// Write implements io.Writer for out: each write asks the guard.
func (c *conn) Write(p []byte) (int, error) {
	if err := allowed(c.ctx); err != nil {
		return 0, err
	}
	return c.net.Write(p)
}

// Read implements io.Reader for in. A header that does not end is an error; a
// body has a bound of its own.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the answer's header is larger than %d bytes", maxHeader)
	}
	n, err := c.net.Read(p)
	c.left -= int64(n)
	return n, err
}

// quiet reports whether nothing has come since the last answer, neither bytes
// nor the end of the connection: then it carries another request.
func (c *conn) quiet() bool {
	socket, ok := c.wire.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var met error
	err = raw.Read(func(fd uintptr) bool {
		_, _, met = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true // do not wait for it
	})
	return err == nil && errors.Is(met, syscall.EAGAIN)
}

// exchange sends a request and reads the header of the answer. After an error
// the connection is of no use.
func (c *conn) exchange(req *http.Request) (*http.Response, error) {
	c.ctx, c.left = req.Context(), maxHeader
	// A deadline in the past interrupts the read or write under way.
	stop := context.AfterFunc(c.ctx, func() { _ = c.net.SetDeadline(time.Unix(1, 0)) })
	resp, err := c.converse(req)
	if err != nil {
		stop()
		return nil, c.why(err)
	}
	c.left = math.MaxInt64
	resp.Body = &body{conn: c, from: resp.Body, stop: stop, last: resp.Close, whole: resp.Body == http.NoBody}
	return resp, nil
}

func (c *conn) converse(req *http.Request) (*http.Response, error) {
	err := req.Write(c.out) // closes the request's body
	if err == nil {
		err = c.out.Flush()
	}
	for range maxHints + 1 {
		if err != nil {
			return nil, err
		}
		var resp *http.Response
		if resp, err = http.ReadResponse(c.in, req); err != nil || resp.StatusCode >= http.StatusOK {
			return resp, err
		}
	}
	return nil, errors.New("there is no end of answers before the answer")
}

// why is the cause of the context's end where that is what ended the exchange.
func (c *conn) why(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was closed before the answer")
	}
	return err
}

// body is that of an answer.
type body struct {
	conn   *conn
	from   io.ReadCloser
	stop   func() bool
	last   bool // nothing follows on the connection
	whole  bool // it was read to its end
	closed bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.from.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.whole = true
	case err != nil:
		err = b.conn.why(err)
	}
	return n, err
}

// Close implements io.Closer. A body that was not read to its end takes the
// connection with it: the rest could be anything.
func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.stop() && b.whole && !b.last && b.conn.in.Buffered() == 0 {
		b.conn.transport.keepConnection(b.conn)
	} else {
		b.conn.transport.dropConnection(b.conn)
	}
	return nil
}
