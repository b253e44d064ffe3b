package cluster

import (
	"net"
	"sync"
	"time"
)

// Bounds of connections whose other end has not shown a certificate: those in
// their handshake, and joiners. Each may hold about 100 KiB.
const (
	maxStrangers = 128
	// strangerLimit is how long one without a certificate stays. A join takes at
	// most joinLimit.
	strangerLimit = joinLimit + 5*time.Second
)

// strangers are the connections of a listener whose other ends have not proved
// who they are. Of too many, the source with the most loses its oldest: a source
// that opens many connections closes its own, not those of other hosts.
type strangers struct {
	net.Listener

	mu   sync.Mutex
	next uint64
	open map[*strangerConn]struct{} // at most maxStrangers
}

func newStrangers(ln net.Listener) *strangers {
	return &strangers{Listener: ln, open: make(map[*strangerConn]struct{})}
}

// strangerConn is a stranger until it is closed or proves who it is.
type strangerConn struct {
	net.Conn
	of     *strangers
	source string // address without port
	number uint64
}

// Accept implements net.Listener.
func (s *strangers) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &strangerConn{Conn: conn, of: s, source: sourceOf(conn.RemoteAddr().String())}
	s.mu.Lock()
	c.number, s.next = s.next, s.next+1
	s.open[c] = struct{}{}
	var surplus *strangerConn
	if len(s.open) > maxStrangers {
		surplus = s.surplus()
		delete(s.open, surplus)
	}
	s.mu.Unlock()
	if surplus != nil {
		_ = surplus.Conn.Close() // it is not used any more
	}
	return c, nil
}

// surplus is the oldest connection of the source that has the most; the caller
// holds the lock.
func (s *strangers) surplus() (oldest *strangerConn) {
	count := make(map[string]int)
	for c := range s.open {
		count[c.source]++
	}
	for c := range s.open {
		switch {
		case oldest == nil, count[c.source] > count[oldest.source],
			count[c.source] == count[oldest.source] && c.number < oldest.number:
			oldest = c
		}
	}
	return oldest
}

// proved takes a connection out of the bound: its other end has proved who it is.
func (c *strangerConn) proved() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.open, c)
}

// Close implements net.Conn.
func (c *strangerConn) Close() error {
	c.proved()
	return c.Conn.Close()
}

// sourceOf returns the host of an address, all of it if it has no port.
func sourceOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
