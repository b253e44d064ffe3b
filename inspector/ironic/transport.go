package ironic

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

const (
	// maxConns bounds the connections, busy and idle alike: at 100 ms a call
	// they carry more than a thousand calls a second.
	maxConns = 128
	// idleConn is below the keep-alive time of eventlet's server, so that
	// connections end at our side.
	idleConn = 60 * time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxErrorBody bounds the body of an answer that is an error, in bytes.
	maxErrorBody = 64 << 10
)

// transport carries requests over HTTP/1.1. It asks the guard of a request's
// context first, and again when there is a connection, right before each write:
// waiting for a connection and dialling lie in between, and may outlast a claim.
//
// The caller's goroutine does everything. net/http's transport writes in
// another, reads in a third, and repeats by itself what went out on a connection
// that was closed meanwhile: the guard had to be smuggled to those writes, and a
// call took the processor nearly twice as long.
type transport struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	tls   *servicecreds.TLS
	limit time.Duration // of a handshake
	slots chan struct{} // one for each connection

	mu     sync.Mutex
	idle   map[string][]*conn // by scheme and host; the one that rests longest first
	closed bool
}

var _ http.RoundTripper = (*transport)(nil)

// newTransport returns a transport whose dialling ends after timeout.
func newTransport(secure *servicecreds.TLS, timeout time.Duration) *transport {
	return &transport{
		dial:  (&net.Dialer{Timeout: timeout}).DialContext,
		tls:   secure,
		limit: timeout,
		slots: make(chan struct{}, maxConns),
		idle:  make(map[string][]*conn),
	}
}

// RoundTrip implements http.RoundTripper. Closing the answer's body gives the
// connection to the next request if the body was read to its end.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := t.connect(req.Context(), req.URL)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nothing was read from it
		}
		return nil, unsent{err}
	}
	resp, err := c.exchange(req)
	if err != nil {
		t.dropConnection(c)
		return nil, err
	}
	if bounds.IsPage(resp) { // Ironic sends none; it would pass for a power command or a document that was taken
		_ = resp.Body.Close() // it is of no use
		return nil, fmt.Errorf("%s answered %d with a page of HTML: another program stands in front of it", req.URL.Host,
			resp.StatusCode)
	}
	limit := int64(maxPage)
	if resp.StatusCode >= http.StatusMultipleChoices {
		limit = maxErrorBody
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, limit)
	return resp, nil
}

// connect returns a connection for one request, as soon as one may be had.
func (t *transport) connect(ctx context.Context, u *url.URL) (*conn, error) {
	if err := allowed(ctx); err != nil {
		return nil, err
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", context.Cause(ctx))
	}
	for {
		c := t.takeConnection(u.Scheme + "://" + u.Host)
		if c == nil {
			break
		}
		if c.quiet() {
			return c, nil
		}
		_ = c.wire.Close() // the other side did, or is confused
	}
	c, err := t.open(ctx, u)
	if err != nil {
		<-t.slots
		return nil, err
	}
	return c, nil
}

// allowed asks the guard, and whether the caller still waits for the answer: the
// end of a context interrupts a write only after it has begun.
func allowed(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := Allowed(ctx)
	if err != nil && !errors.Is(err, ErrNotAllowed) {
		err = fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return err
}

// takeConnection returns the connection that was used last, nil if none rests.
func (t *transport) takeConnection(to string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(to)
	resting := t.idle[to]
	if len(resting) == 0 {
		return nil
	}
	c := resting[len(resting)-1]
	t.idle[to] = resting[:len(resting)-1]
	return c
}

// expire closes what rested too long. The caller holds the lock.
func (t *transport) expire(to string) {
	resting := t.idle[to]
	for len(resting) > 0 && time.Since(resting[0].since) >= idleConn {
		_ = resting[0].wire.Close() // no call waits on it
		resting = resting[1:]
	}
	t.idle[to] = resting
}

// keepConnection takes a connection back that may carry another request.
func (t *transport) keepConnection(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.dropConnection(c)
		return
	}
	c.since = time.Now()
	t.expire(c.to)
	t.idle[c.to] = append(t.idle[c.to], c)
	<-t.slots
}

// dropConnection ends a connection.
func (t *transport) dropConnection(c *conn) {
	_ = c.wire.Close() // of no use any more
	<-t.slots
}

// open dials.
func (t *transport) open(ctx context.Context, u *url.URL) (*conn, error) {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	wire, err := t.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	if u.Scheme != "https" {
		return newConn(t, u, wire, wire), nil
	}
	conf := t.tls.Config().Clone()
	conf.ServerName = u.Hostname()
	secure := tls.Client(wire, conf)
	limited, cancel := within(ctx, t.limit)
	defer cancel()
	if err := secure.HandshakeContext(limited); err != nil {
		_ = wire.Close() // the handshake's error is the one to tell
		if cause := context.Cause(limited); cause != nil {
			err = cause
		}
		return nil, err
	}
	return newConn(t, u, secure, wire), nil
}

// close ends the connections that carry no call, now and when their call ends.
func (t *transport) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for to, resting := range t.idle {
		for _, c := range resting {
			_ = c.wire.Close() // no call waits on it
		}
		delete(t.idle, to)
	}
}
