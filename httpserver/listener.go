package httpserver

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// listener accepts connections within the bounds of a server. One that comes when
// there are too many takes the place of a connection of the source that has the
// most. So a flood from a few sources never keeps the others out.
type listener struct {
	net.Listener
	limits      Limits
	tls         *tls.Config // nil: in the clear
	trusted     func(netip.Addr) bool
	failed      func(error)
	log         *slog.Logger
	descriptors func() (limit uint64, err error) // of the process

	mu      sync.Mutex
	next    uint64
	sources map[name]*source // those with connections
	open    map[bool]int     // connections, by source.trusted
}

// name tells sources apart: an IPv4 address or an IPv6 /64; all callers of a Unix
// socket are one.
type name struct {
	netip.Prefix
	trusted bool
}

type source struct {
	name
	conns map[*conn]struct{}
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
		c := l.wrap(accepted)
		surplus := l.admit(c, l.spent(accepted))
		if surplus != nil {
			l.log.Warn("too many connections, closing one", "address", l.Addr(), "source", surplus.from.Prefix)
			_ = surplus.accepted.Close() // not surplus.tls: that would wait for a write
		}
		if surplus != c {
			return c, nil
		}
	}
}

func (l *listener) wrap(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, accepted: accepted, limits: l.limits, of: l, waits: true}
	if l.tls != nil {
		c.tls = tls.Server(accepted, l.tls)
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

// admit counts a connection. It returns the one to close in its place, which may
// be c itself; nil if there is room. spent says that there is none in any case.
func (l *listener) admit(c *conn, spent bool) (surplus *conn) {
	key := l.nameOf(c.accepted.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.sources[key]
	if from == nil {
		from = &source{name: key, conns: make(map[*conn]struct{})}
	}
	c.from = from
	if surplus = l.surplus(from, c, spent); surplus == c {
		return c
	}
	if surplus != nil {
		l.forget(surplus)
	}
	l.sources[key] = from
	from.conns[c] = struct{}{}
	l.open[key.trusted]++
	l.next++
	c.number = l.next
	return surplus
}

// surplus returns what to close for one more connection c of a source: nothing
// while there is room; else a connection without a request, the oldest of those;
// else any, but only of a source that has more still when it has lost one. The
// caller holds the lock.
func (l *listener) surplus(from *source, c *conn, spent bool) *conn {
	loser := from
	switch {
	case !from.trusted && len(from.conns) >= l.limits.Share:
	case spent, l.open[from.trusted] >= l.limits.Conns:
		for _, s := range l.sources {
			if s.trusted == from.trusted && len(s.conns) > len(loser.conns) {
				loser = s
			}
		}
	default:
		return nil
	}
	if waits := loser.oldest(func(c *conn) bool { return c.waits }); waits != nil {
		return waits
	}
	if len(loser.conns) > len(from.conns)+1 {
		return loser.oldest(func(*conn) bool { return true })
	}
	return c
}

func (s *source) oldest(which func(*conn) bool) (oldest *conn) {
	for c := range s.conns {
		if which(c) && (oldest == nil || c.number < oldest.number) {
			oldest = c
		}
	}
	return oldest
}

// forget counts a connection no more; the caller holds the lock.
func (l *listener) forget(c *conn) {
	if _, ok := c.from.conns[c]; !ok {
		return // it was forgotten for another, or never counted
	}
	delete(c.from.conns, c)
	l.open[c.from.trusted]--
	if len(c.from.conns) == 0 {
		delete(l.sources, c.from.name)
	}
}

// leave counts a connection no more that was closed.
func (l *listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(c)
}

// wait notes whether a connection waits for a request.
func (l *listener) wait(c *conn, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.waits = waits
	if waits {
		l.next++
		c.number = l.next
	}
}

func (l *listener) nameOf(a net.Addr) name {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return name{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	network, err := address.Prefix(bits)
	if err != nil {
		network = netip.PrefixFrom(address, address.BitLen()) // not reached: the bits fit the address
	}
	return name{network, l.trusted != nil && l.trusted(address)}
}
