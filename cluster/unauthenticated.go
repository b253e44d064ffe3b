package cluster

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
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
// that opens many connections closes its own, not those of other hosts. Hosts of
// members have room of their own.
type strangers struct {
	net.Listener
	known func(netip.Addr) bool // a member's host
	by    *admission.Controller // set before the first Accept
	open  map[bool]*admission.Table
}

func newStrangers(ln net.Listener, known func(netip.Addr) bool) *strangers {
	return &strangers{Listener: ln, known: known, open: map[bool]*admission.Table{
		true: admission.NewTable(maxStrangers, maxStrangers), false: admission.NewTable(maxStrangers, maxStrangers),
	}}
}

// strangerConn is a stranger until it is closed or proves who it is.
type strangerConn struct {
	net.Conn
	held *admission.Holding
	over func() // ends the wait of begin

	once  sync.Once
	begin func() error // waits for the connection's turn
	begun error
}

// Accept implements net.Listener.
func (s *strangers) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var address netip.Addr
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok { // it is the listener's
		address = tcp.AddrPort().Addr().Unmap()
	}
	known, source := s.known(address), admission.SourceOf(address)
	ctx, over := context.WithCancel(context.Background())
	c := &strangerConn{Conn: conn, over: over,
		begin: func() error { return s.by.Connect(ctx, source, known, admission.ByTLS) }}
	var surplus *admission.Holding
	c.held, surplus = s.open[known].Enter(source, false, func() {
		over()
		_ = conn.Close() // it is not used any more
	})
	if surplus != nil {
		surplus.End()
	}
	return c, nil
}

// Read implements net.Conn. The first one waits for the connection's turn, so that no
// handshake begins before.
func (c *strangerConn) Read(p []byte) (int, error) {
	if c.once.Do(func() { c.begun = c.begin() }); c.begun != nil {
		return 0, c.begun
	}
	return c.Conn.Read(p)
}

// proved takes a connection out of the bound: its other end has proved who it is.
func (c *strangerConn) proved() { c.held.Leave() }

// Close implements net.Conn.
func (c *strangerConn) Close() error {
	c.over()
	c.proved()
	return c.Conn.Close()
}
