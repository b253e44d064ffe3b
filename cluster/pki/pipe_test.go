package pki_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// half is one direction of an in-memory connection. Writes never wait, unlike
// those of net.Pipe, on which two TLS ends that both send an alert block each
// other; waits are on a condition, which a synctest bubble understands.
type half struct {
	mu     sync.Mutex
	more   *sync.Cond
	data   bytes.Buffer
	closed bool
}

func newHalf() *half {
	h := new(half)
	h.more = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.data.Len() == 0 {
		if h.closed {
			return 0, io.EOF
		}
		h.more.Wait()
	}
	return h.data.Read(b)
}

func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return len(b), nil // as with TCP, the loss shows when one reads
	}
	h.more.Broadcast()
	return h.data.Write(b)
}

func (h *half) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.more.Broadcast()
}

// conn is one end of a connection.
type conn struct{ in, out *half }

func newPipe() (a, b net.Conn) {
	x, y := newHalf(), newHalf()
	return conn{x, y}, conn{y, x}
}

func (c conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c conn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c conn) Close() error {
	c.in.close()
	c.out.close()
	return nil
}
func (c conn) LocalAddr() net.Addr              { return nowhere{} }
func (c conn) RemoteAddr() net.Addr             { return nowhere{} }
func (c conn) SetDeadline(time.Time) error      { return nil }
func (c conn) SetReadDeadline(time.Time) error  { return nil }
func (c conn) SetWriteDeadline(time.Time) error { return nil }

type nowhere struct{}

func (nowhere) Network() string { return "memory" }
func (nowhere) String() string  { return "memory" }
