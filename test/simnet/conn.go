package simnet

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// flow is one direction of a connection.
type flow struct {
	links    Links
	from, to *Process
	wake     chan struct{} // capacity 1: something has changed for the reader

	mu       sync.Mutex
	segments []segment
	deadline time.Time // of the reader
	shut     bool      // the reader has closed its end
	failed   error     // of the reader's end; nil while it works
}

// segment is what one Write has sent.
type segment struct {
	data []byte
	end  error           // instead of data: what the reader gets from here on
	held <-chan struct{} // the sender was stopped: it is sent when this is closed
	next time.Time       // when it arrives, or is sent again
	wait time.Duration   // until it is sent again after that
	here bool            // it has arrived
}

func newFlow(links Links, from, to *Process) *flow {
	return &flow{links: links, from: from, to: to, wake: make(chan struct{}, 1)}
}

func (f *flow) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// send queues data, or the end of the flow.
func (f *flow) send(data []byte, end error) {
	s := segment{data: bytes.Clone(data), end: end, held: f.from.stops.Stopped(), wait: firstRetry}
	s.next = time.Now().Add(f.delay())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return // as with TCP, the loss shows when one reads
	}
	if n := len(f.segments); n > 0 && s.held == nil && s.next.Before(f.segments[n-1].next) {
		s.next = f.segments[n-1].next // they arrive in order
	}
	f.segments = append(f.segments, s)
	f.changed()
}

func (f *flow) delay() time.Duration {
	d := f.links.Delay(f.from.host, f.to.host)
	for f.links.Lost(f.from.host, f.to.host) && d < slowestSend {
		d += firstRetry
	}
	return d
}

// drop takes away what has never left the sender's host.
func (f *flow) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.segments {
		if s.held != nil {
			f.segments = f.segments[:i]
			return
		}
	}
}

// arrive brings one segment as far as it has come by now, and returns when to look again;
// the lock is held.
func (f *flow) arrive(s *segment) (here bool, again time.Time, held <-chan struct{}) {
	now := time.Now()
	if s.held != nil {
		select {
		case <-s.held:
			s.held, s.next = nil, now.Add(f.links.Delay(f.from.host, f.to.host))
		default:
			return false, again, s.held
		}
	}
	for !s.here && !s.next.After(now) {
		if f.links.Passes(f.from.host, f.to.host) {
			s.here = true
			break
		}
		s.next, s.wait = s.next.Add(s.wait), min(2*s.wait, slowestSend)
	}
	return s.here, s.next, nil
}

// settle notes what has arrived so far.
func (f *flow) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.segments {
		if here, _, _ := f.arrive(&f.segments[i]); !here {
			return
		}
	}
}

// take returns what the reader gets now, or when, or after what, to ask again.
func (f *flow) take(b []byte) (n int, again time.Time, held <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return 0, again, nil, f.failed
	case !f.deadline.IsZero() && !time.Now().Before(f.deadline):
		return 0, again, nil, os.ErrDeadlineExceeded
	case len(f.segments) == 0:
		return 0, f.deadline, nil, nil
	}
	s := &f.segments[0]
	here, again, held := f.arrive(s)
	if !here {
		if !f.deadline.IsZero() && (again.IsZero() || f.deadline.Before(again)) {
			again = f.deadline
		}
		return 0, again, held, nil
	}
	if s.end != nil {
		return 0, again, nil, s.end
	}
	n = copy(b, s.data)
	if s.data = s.data[n:]; len(s.data) == 0 {
		f.segments = f.segments[1:]
	}
	return n, again, nil, nil
}

// fail ends the reader's end; what was not read is gone.
func (f *flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed, f.shut, f.segments = err, true, nil
		f.changed()
	}
}

// conn is one end of a connection.
type conn struct {
	net           *Net
	process       *Process
	in, out       *flow
	local, remote netip.AddrPort

	mu      sync.Mutex
	closed  bool
	limited bool // it ends when nothing is acknowledged for silentLimit
	silence *time.Timer
	until   time.Time // no write after this; zero: any
}

var _ net.Conn = (*conn)(nil)

// Read implements net.Conn. One goroutine reads at a time.
func (c *conn) Read(b []byte) (int, error) {
	for {
		if !c.process.running(nil) {
			return 0, net.ErrClosed
		}
		n, again, held, err := c.in.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		var timer *time.Timer
		var due <-chan time.Time
		if !again.IsZero() {
			timer = time.NewTimer(time.Until(again))
			due = timer.C
		}
		select {
		case <-c.in.wake:
		case <-due:
		case <-held:
		case <-c.process.end.Done():
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// Write implements net.Conn. It never waits.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	closed, late := c.closed, !c.until.IsZero() && !time.Now().Before(c.until)
	c.mu.Unlock()
	switch {
	case closed:
		return 0, net.ErrClosed
	case late:
		return 0, os.ErrDeadlineExceeded
	}
	c.out.send(b, nil)
	c.watchSilence()
	return len(b), nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.end(net.ErrClosed) {
		c.out.send(nil, io.EOF)
	}
	return nil
}

// reset is Close of a process that is killed.
func (c *conn) reset() {
	c.out.drop()
	c.end(net.ErrClosed)
	c.out.send(nil, errReset) // after an end that was sent before it is never read
	c.net.forget(c)
}

// end closes this end; false if it was closed before.
func (c *conn) end(why error) bool {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	if c.silence != nil {
		c.silence.Stop()
	}
	c.mu.Unlock()
	c.in.fail(why)
	if c.process.stops.Stopped() == nil { // else reset drops what it has not sent
		c.net.forget(c)
	}
	return !closed
}

// limitSilence makes the connection end when nothing is acknowledged for silentLimit.
func (c *conn) limitSilence() { c.limited = true }

// watchSilence looks, as long as something is not acknowledged, whether it is for too long.
func (c *conn) watchSilence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limited || c.closed || c.silence != nil {
		return
	}
	began := time.Now()
	c.silence = time.AfterFunc(silentLimit/4, func() { c.listen(began) })
}

// listen ends the connection if nothing was acknowledged since it was silent first.
func (c *conn) listen(began time.Time) {
	here, there := c.process.host, c.out.to.host
	c.mu.Lock()
	c.silence = nil
	if c.closed || c.net.links.Passes(here, there) && c.net.links.Passes(there, here) {
		c.mu.Unlock()
		return
	}
	if time.Since(began) < silentLimit {
		c.silence = time.AfterFunc(silentLimit/4, func() { c.listen(began) })
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if c.end(syscall.ETIMEDOUT) {
		c.out.send(nil, errReset)
	}
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // neither fails
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.deadline = t
	c.in.changed()
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return nil
}
