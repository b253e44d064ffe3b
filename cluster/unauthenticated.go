package cluster

import (
	"net"
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
// that opens many connections closes its own, not those of other hosts.
type strangers struct {
	net.Listener
	open *admission.Table
}

func newStrangers(ln net.Listener) *strangers {
	return &strangers{Listener: ln, open: admission.NewTable(maxStrangers, maxStrangers)}
}

// strangerConn is a stranger until it is closed or proves who it is.
type strangerConn struct {
	net.Conn
	held *admission.Holding
}

// Accept implements net.Listener.
func (s *strangers) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &strangerConn{Conn: conn}
	var surplus *admission.Holding
	c.held, surplus = s.open.Enter(admission.RemoteSource(conn.RemoteAddr().String()), false, func() {
		_ = conn.Close() // it is not used any more
	})
	if surplus != nil {
		surplus.End()
	}
	return c, nil
}

// proved takes a connection out of the bound: its other end has proved who it is.
func (c *strangerConn) proved() { c.held.Leave() }

// Close implements net.Conn.
func (c *strangerConn) Close() error {
	c.proved()
	return c.Conn.Close()
}
