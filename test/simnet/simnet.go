// Package simnet is TCP and UDP between simulated hosts, for the real listeners, dialers
// and TLS of peers that run in one bubble of testing/synctest.
//
// Links says what passes between two hosts. A connection behaves like TCP over a link
// that loses packets: what a cut swallows is repeated, at intervals that double, and
// arrives after the link is mended; the kernel of a host whose process is stopped
// acknowledges and keeps what arrives. A datagram is lost instead.
//
// No call waits while it holds a mutex, and no Write waits at all: crypto/tls writes
// under a lock, and a goroutine that waits for a mutex stops the clock of the bubble. What
// a stopped process writes stays on its host until it goes on.
package simnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Links are what lies between hosts. Its methods may be called concurrently and must not
// wait.
type Links interface {
	// Delay is how long what is sent now takes.
	Delay(from, to string) time.Duration
	// Passes reports whether what is sent now arrives.
	Passes(from, to string) bool
	// Lost reports, of what passes, whether this packet is lost all the same.
	Lost(from, to string) bool
}

// Stopper says when a process is stopped as SIGSTOP does.
type Stopper interface {
	// Stopped returns nil while the process runs, else a channel that is closed when it
	// goes on.
	Stopped() <-chan struct{}
}

// Net joins the processes of all hosts. Make it inside the bubble that uses it.
type Net struct {
	links Links

	mu        sync.Mutex
	hosts     map[netip.Addr]string
	listening map[netip.AddrPort]*listener
	gossiping map[netip.AddrPort]*Datagrams
	conns     map[*conn]struct{} // ends that are open
	port      uint16             // of the newest dialler
}

// New returns a network without hosts.
func New(links Links) *Net {
	return &Net{links: links, hosts: make(map[netip.Addr]string), listening: make(map[netip.AddrPort]*listener),
		gossiping: make(map[netip.AddrPort]*Datagrams), conns: make(map[*conn]struct{}), port: 32768}
}

// Settle notes what has arrived so far. Call it before the links change.
func (n *Net) Settle() {
	for _, c := range n.open() {
		c.in.settle()
	}
}

// open returns the ends of connections that are open.
func (n *Net) open() (all []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns { // order-free: each on its own
		all = append(all, c)
	}
	return all
}

// Process is the network of one process. It implements cluster.Network.
type Process struct {
	net   *Net
	host  string
	ip    netip.Addr
	stops Stopper
	end   context.Context
	kill  context.CancelFunc
}

// Start gives a process of a host the host's address.
func (n *Net) Start(host string, ip netip.Addr, stops Stopper) *Process {
	p := &Process{net: n, host: host, ip: ip, stops: stops}
	p.end, p.kill = context.WithCancel(context.Background())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[ip] = host
	return p
}

// Kill ends the process as far as the network can tell: what it has written while it was
// stopped never leaves, and its connections are reset.
func (p *Process) Kill() {
	p.kill()
	for _, c := range p.net.open() {
		if c.process == p {
			c.reset()
		}
	}
}

// running waits until the process runs; false if it, or ctx, ended before.
func (p *Process) running(done <-chan struct{}) bool {
	for {
		stopped := p.stops.Stopped()
		if stopped == nil {
			return p.end.Err() == nil
		}
		select {
		case <-stopped:
		case <-done:
			return false
		case <-p.end.Done():
			return false
		}
	}
}

// Of the kernel: how long a first packet waits for its acknowledgement before it is
// repeated, how many connections wait to be accepted, and the time limit of those that
// shall end when nothing is acknowledged.
const (
	synRetry    = time.Second
	firstRetry  = 200 * time.Millisecond
	slowestSend = 2 * time.Minute
	backlog     = 128
	silentLimit = 3 * time.Second
)

// errReset is what the other end of a connection gets whose process ended.
var errReset = fmt.Errorf("read: %w", syscall.ECONNRESET)

// Listen implements cluster.Network.
func (p *Process) Listen(_ context.Context, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	l := &listener{process: p, at: at, waiting: make(chan *conn, backlog)}
	l.closed, l.close = context.WithCancel(p.end)
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if old := p.net.listening[at]; old != nil && old.closed.Err() == nil {
		return nil, fmt.Errorf("listen %v: %w", at, syscall.EADDRINUSE)
	}
	p.net.listening[at] = l
	return l, nil
}

// listener is a port that is open.
type listener struct {
	process *Process
	at      netip.AddrPort
	waiting chan *conn
	closed  context.Context
	close   context.CancelFunc
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		if l.process.running(l.closed.Done()) {
			return c, nil
		}
	case <-l.closed.Done():
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if l.closed.Err() != nil {
		return net.ErrClosed
	}
	l.close()
	for {
		select {
		case c := <-l.waiting:
			c.reset()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// Dial implements cluster.Network.
func (p *Process) Dial(ctx context.Context, address string, endsWhenSilent bool) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	for retry := synRetry; ; retry *= 2 {
		host, known := p.net.hostAt(to.Addr())
		if !p.running(ctx.Done()) {
			return nil, errors.Join(ctx.Err(), net.ErrClosed)
		}
		links, delay := p.net.links, 2*time.Millisecond
		if known {
			delay = links.Delay(p.host, host) + links.Delay(host, p.host)
		}
		if err := sleep(ctx, p.end, delay); err != nil {
			return nil, err
		}
		if known && links.Passes(p.host, host) && links.Passes(host, p.host) && !links.Lost(p.host, host) {
			break
		}
		if err := sleep(ctx, p.end, retry); err != nil {
			return nil, err
		}
	}
	ours, err := p.net.connect(p, to, endsWhenSilent)
	if err != nil {
		return nil, err
	}
	if !p.running(ctx.Done()) {
		ours.reset()
		return nil, errors.Join(ctx.Err(), net.ErrClosed)
	}
	return ours, nil
}

func (n *Net) hostAt(ip netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host, known := n.hosts[ip]
	return host, known
}

// connect joins a process to whoever listens at an address.
func (n *Net) connect(p *Process, to netip.AddrPort, endsWhenSilent bool) (*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listening[to]
	if l == nil || l.closed.Err() != nil || p.end.Err() != nil {
		return nil, fmt.Errorf("dial %v: %w", to, syscall.ECONNREFUSED)
	}
	n.port = max(n.port+1, 32768)
	from := netip.AddrPortFrom(p.ip, n.port)
	there, back := newFlow(n.links, p, l.process), newFlow(n.links, l.process, p)
	ours := &conn{net: n, process: p, in: back, out: there, local: from, remote: to}
	theirs := &conn{net: n, process: l.process, in: there, out: back, local: to, remote: from}
	if theirs.limitSilence(); endsWhenSilent {
		ours.limitSilence()
	}
	select {
	case l.waiting <- theirs:
	default:
		return nil, fmt.Errorf("dial %v: %w", to, syscall.ETIMEDOUT) // the backlog is full
	}
	n.conns[ours], n.conns[theirs] = struct{}{}, struct{}{}
	return ours, nil
}

func (n *Net) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// sleep returns nil after d, or the error of whichever context ended before.
func sleep(ctx, process context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-process.Done():
		return net.ErrClosed
	}
}
