package httpserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// listener accepts connections within the bounds of a server. One that comes when
// there are too many takes the place of a connection of the source that has the
// most. So a flood from a few sources never keeps the others out.
type listener struct {
	net.Listener
	limits      Limits
	tls         *tls.Config // nil: in the clear
	trusted     func(netip.Addr) bool
	begin       func(context.Context, netip.Addr) error // nil: at once
	failed      func(error)
	log         *slog.Logger
	descriptors func() (limit uint64, err error) // of the process
	handshakes  *admission.Line
	tables      map[bool]*admission.Table // connections, of sources that are trusted and of others
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			if l.failed != nil {
				l.failed(err)
			}
			return nil, err
		}
		address := addressOf(accepted)
		c := l.wrap(accepted, address)
		trusted := l.trusted != nil && l.trusted(address)
		var surplus *admission.Holding
		c.held, surplus = l.tables[trusted].Enter(admission.SourceOf(address), l.spent(accepted), func() {
			c.over()
			_ = accepted.Close() // not that of TLS, which would wait for a write
		})
		if surplus != nil {
			l.log.Warn("too many connections, closing one", "address", l.Addr(), "source", surplus.Source())
			surplus.End()
		}
		if surplus != c.held {
			return c, nil
		}
	}
}

func (l *listener) wrap(accepted net.Conn, from netip.Addr) *conn {
	c := &conn{Conn: accepted, accepted: accepted, limits: l.limits, over: func() {}, arrived: time.Now()}
	if l.begin != nil {
		var ctx context.Context
		ctx, c.over = context.WithCancel(context.Background())
		c.begin = func() error { return l.begin(ctx, from) }
	}
	if l.tls != nil {
		c.below = &shaking{Conn: accepted, line: l.handshakes, source: admission.SourceOf(from)}
		c.tls = tls.Server(c.below, l.tls)
		c.Conn = c.tls
	}
	c.inHead.Store(true)
	c.fresh.Store(true)
	return c
}

// spent reports whether a connection got one of the last descriptors, which are
// not for it. The kernel gives the lowest free one, so all below it are in use.
func (l *listener) spent(c net.Conn) bool {
	limit, err := l.descriptors()
	raw, ok := c.(syscall.Conn)
	if err != nil || !ok {
		return false // the bound of connections holds without
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false // it is closed, as the server will see
	}
	spent := false
	err = control.Control(func(fd uintptr) { spent = uint64(fd)+uint64(l.limits.Spare) >= limit })
	return spent && err == nil
}

func descriptorLimit() (uint64, error) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return r.Cur, err
}

// addressOf is the address of a connection's other end, the zero Addr for that of a Unix
// socket: all its callers are one source.
func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}
