package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/pki"
)

// The protocols of the peers' port, told apart by ALPN.
const (
	protocolRaft = "trivet-raft"
	protocolHTTP = "h2"
)

// Bounds of the peers' port.
const (
	handshakeLimit = 5 * time.Second
	headerLimit    = 5 * time.Second
	idleLimit      = 2 * time.Minute
	raftBacklog    = 16 // accepted raft connections that wait for raft
	keepAlive      = 15 * time.Second
)

// Port is the one TLS port between peers: raft and HTTP/2 share it. It is
// raft's network (host.Network). All methods may be called concurrently.
type Port struct {
	end    pki.Endpoint
	ln     net.Listener
	server *http.Server
	raft   chan net.Conn
	closed chan struct{} // closed by Close
	once   sync.Once
	done   sync.WaitGroup
	redial redial
}

// NewPort binds the address; Serve answers on it.
func NewPort(ctx context.Context, listen string, end pki.Endpoint) (*Port, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive}
	ln, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, err // the caller knows the option
	}
	return &Port{end: end, ln: ln, raft: make(chan net.Conn, raftBacklog), closed: make(chan struct{})}, nil
}

// Serve answers HTTP/2 with h and hands raft's connections to Accept.
func (p *Port) Serve(h http.Handler, log *slog.Logger) error {
	p.server = &http.Server{
		Handler:           h,
		TLSConfig:         pki.ServerTLS(p.end, pki.Protocol{Name: protocolRaft}, pki.Protocol{Name: protocolHTTP, Operators: true, Anonymous: true}),
		ReadHeaderTimeout: headerLimit,
		IdleTimeout:       idleLimit,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if err := http2.ConfigureServer(p.server, nil); err != nil {
		return fmt.Errorf("set HTTP/2 up: %w", err)
	}
	p.server.TLSNextProto[protocolRaft] = func(_ *http.Server, c *tls.Conn, _ http.Handler) { p.hand(c) }
	p.done.Go(func() {
		if err := p.server.ServeTLS(p.ln, "", ""); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Error("serve peer port failed", "err", err)
		}
	})
	return nil
}

// hand gives a raft connection to Accept and returns when raft has closed it,
// since http.Server closes what this function has left.
func (p *Port) hand(c *tls.Conn) {
	if c.SetDeadline(time.Time{}) != nil { // http.Server set some for the handshake
		return
	}
	held := &heldConn{Conn: c, gone: make(chan struct{})}
	select {
	case p.raft <- held:
	case <-p.closed:
		return
	}
	select {
	case <-held.gone:
	case <-p.closed:
	}
}

// heldConn tells when it was closed.
type heldConn struct {
	net.Conn
	once sync.Once
	gone chan struct{} // closed by Close
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// Accept implements net.Listener for raft.
func (p *Port) Accept() (net.Conn, error) {
	select {
	case c := <-p.raft:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (p *Port) Addr() net.Addr { return p.ln.Addr() }

// Close implements net.Listener: it ends raft's and everybody's connections.
func (p *Port) Close() error {
	var err error
	p.once.Do(func() {
		close(p.closed)
		if p.server == nil {
			err = p.ln.Close()
			return
		}
		err = p.server.Close()
		p.done.Wait()
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// DialPeer connects raft to the peer with this server ID.
func (p *Port) DialPeer(ctx context.Context, id, hostport string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	way := p.redial.begin(id, cancel)
	conn, err := dialTLS(ctx, hostport, pki.ClientTLS(p.end, id, protocolRaft))
	if err != nil {
		p.redial.over(way)
		return nil, err
	}
	return p.redial.connected(way, conn), nil
}

func dialTLS(ctx context.Context, hostport string, conf *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{KeepAlive: keepAlive}, Config: conf}
	return d.DialContext(ctx, "tcp", hostport)
}
