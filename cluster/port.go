package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
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

	// What one HTTP/2 connection may hold, in bytes; strangers hold some, too.
	maxPortHeaders    = 32 << 10
	maxPortFrame      = 64 << 10
	maxPortConnBuffer = 512 << 10
	maxPortBodyBuffer = 256 << 10
	maxPortStreams    = 100
	// A joiner makes one request, of at most maxJoinBody bytes.
	maxStrangerStreams = 1
	maxStrangerBuffer  = 64 << 10
)

// Port is the one TLS port between peers: raft and HTTP/2 share it. It is
// raft's network (host.Network). All methods may be called concurrently.
type Port struct {
	access *Access
	ln     *strangers
	server *http.Server
	raft   chan *heldConn
	closed chan struct{} // closed by Close
	once   sync.Once
	done   sync.WaitGroup
	redial redial
}

// NewPort binds the address; Serve answers on it, to whom access allows.
func NewPort(ctx context.Context, listen string, access *Access) (*Port, error) {
	ln, err := access.network.Listen(ctx, listen)
	if err != nil {
		return nil, err // the caller knows the option
	}
	return &Port{access: access, ln: newStrangers(ln, access.MemberAt), raft: make(chan *heldConn, raftBacklog),
		closed: make(chan struct{})}, nil
}

// Serve answers HTTP/2 with h and hands raft's connections to AcceptPeer. by says when a
// connection may begin.
func (p *Port) Serve(h http.Handler, by *admission.Controller, log *slog.Logger) error {
	p.ln.by = by
	p.server = &http.Server{
		Handler: p.access.Handler(h),
		TLSConfig: pki.ServerTLS(p.access.end, pki.Protocol{Name: protocolRaft},
			pki.Protocol{Name: protocolHTTP, Operators: true, Anonymous: true}),
		ReadHeaderTimeout: headerLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    maxPortHeaders,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	err := http2.ConfigureServer(p.server, &http2.Server{
		MaxConcurrentStreams:         maxPortStreams,
		MaxReadFrameSize:             maxPortFrame,
		MaxUploadBufferPerConnection: maxPortConnBuffer,
		MaxUploadBufferPerStream:     maxPortBodyBuffer,
	})
	if err != nil {
		return fmt.Errorf("set HTTP/2 up: %w", err)
	}
	answer := p.server.TLSNextProto[protocolHTTP]
	p.server.TLSNextProto[protocolHTTP] = func(s *http.Server, c *tls.Conn, h http.Handler) {
		p.admit(c, protocolHTTP, func(id pki.Identity) {
			if id.Role == 0 {
				p.answerStranger(c)
				return
			}
			answer(s, c, h)
		})
	}
	p.server.TLSNextProto[protocolRaft] = func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		p.admit(c, protocolRaft, func(id pki.Identity) { p.hand(c, id.Peer) })
	}
	p.done.Go(func() {
		if err := p.server.ServeTLS(p.ln, "", ""); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Error("serve peer port failed", "err", err)
		}
	})
	return nil
}

// admit uses a connection whose handshake is done, for as long as its other end
// has the right to. One without a certificate, a joiner's, ends after
// strangerLimit.
func (p *Port) admit(c *tls.Conn, protocol string, use func(pki.Identity)) {
	stranger, ok := c.NetConn().(*strangerConn)
	if !ok {
		return // every connection is one of the listener's
	}
	if len(c.ConnectionState().PeerCertificates) == 0 {
		ends := time.AfterFunc(strangerLimit, func() { _ = stranger.Close() })
		defer ends.Stop()
		use(pki.Identity{})
		return
	}
	o, err := p.access.enter(c, protocol, true)
	if err != nil {
		return // http.Server closes it
	}
	defer p.access.leave(o)
	stranger.proved()
	use(o.id)
}

// answerStranger serves the connection of a joiner, which may hold less and carries one
// join.
func (p *Port) answerStranger(c *tls.Conn) {
	h2 := http2.Server{
		MaxConcurrentStreams: maxStrangerStreams, MaxReadFrameSize: maxPortFrame, IdleTimeout: headerLimit,
		MaxUploadBufferPerConnection: maxStrangerBuffer, MaxUploadBufferPerStream: maxStrangerBuffer,
	}
	h2.ServeConn(newJoinerConn(c), &http2.ServeConnOpts{BaseConfig: p.server, Handler: p.server.Handler})
}

// hand gives a raft connection to AcceptPeer and returns when raft has closed
// it, since http.Server closes what this function has left.
func (p *Port) hand(c *tls.Conn, peer string) {
	if c.SetDeadline(time.Time{}) != nil { // http.Server set some for the handshake
		return
	}
	held := &heldConn{Conn: c, peer: peer, gone: make(chan struct{})}
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
	peer string // server ID that its certificate proved
	once sync.Once
	gone chan struct{} // closed by Close
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// AcceptPeer implements host.Network.
func (p *Port) AcceptPeer() (net.Conn, string, error) {
	select {
	case c := <-p.raft:
		return c, c.peer, nil
	case <-p.closed:
		return nil, "", net.ErrClosed
	}
}

// Authorize implements host.Network.
func (p *Port) Authorize(peer string) error { return p.access.Authorize(peer) }

// Addr returns the address that the port is bound to.
func (p *Port) Addr() net.Addr { return p.ln.Addr() }

// Close ends all connections, raft's among them.
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

// DialPeer implements host.Network.
func (p *Port) DialPeer(ctx context.Context, id, hostport string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	attempt := p.redial.begin(id, cancel)
	conn, err := p.access.dial(ctx, id, hostport, protocolRaft)
	if err != nil {
		p.redial.forget(attempt)
		return nil, err
	}
	return p.redial.connected(attempt, conn), nil
}

func dialTLS(ctx context.Context, n Network, hostport string, conf *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	raw, err := n.Dial(ctx, hostport, slices.Contains(conf.NextProtos, protocolHTTP))
	if err != nil {
		return nil, err
	}
	conf = conf.Clone()
	if conf.ServerName, _, err = net.SplitHostPort(hostport); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return conn, nil
}
