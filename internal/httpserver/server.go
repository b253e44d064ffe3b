package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
)

// Bounds of every server.
const (
	maxHeaderBytes = 32 << 10 // of one head; net/http allows 4 KiB more
	maxHeaderLines = 100      // of one head, the request line among them
	maxParameters  = 64       // of one query: 31 KB of parameters take a MB when they are parsed
	writePiece     = 64 << 10 // bytes of an answer that must be taken within Limits.Write
)

// Limits are the bounds of one server. Every field must be set.
type Limits struct {
	// Header is how long a head may take to arrive, with the TLS handshake.
	Header time.Duration
	// Idle is how long a connection may wait for its next request.
	Idle time.Duration
	// Body is how long a whole body may take to arrive. Of what is left of it,
	// BodyStep bytes must arrive within each Stall.
	Body     time.Duration
	Stall    time.Duration
	BodyStep int
	// Write is how long the caller may take for each 64 KiB of an answer.
	Write time.Duration
	// Conns bounds the connections, idle ones among them: those of trusted sources,
	// and by themselves those of all others.
	Conns int
	// Share bounds the connections of one source that is not trusted: an IPv4
	// address or an IPv6 /64.
	Share int
	// Spare is how many of the process's descriptors connections of this server
	// leave to everything else.
	Spare int
}

// Options are the parts of a server. Handler, Limits and Logger must be set.
type Options struct {
	Handler http.Handler
	Limits  Limits
	TLS     *tls.Config // nil: in the clear
	// Trusted says whether connections from this address are not subject to
	// Limits.Share, as those of a load balancer; nil: none is. It is called for each
	// connection and must not block.
	Trusted func(netip.Addr) bool
	// Begin, if set, returns when it is the turn of a connection that begins, or an error
	// that ends it. Nothing is read of it before. ctx ends with the connection.
	Begin func(ctx context.Context, from netip.Addr) error
	// ConnContext is that of http.Server; it sees the connection as it was accepted.
	ConnContext func(context.Context, net.Conn) context.Context
	// OptionsToHandler gives the handler OPTIONS * as well; see http.Server.
	OptionsToHandler bool
	// Failed, if set, hears of each connection that could not be accepted.
	Failed func(error)
	Logger *slog.Logger
}

// Server is an HTTP/1.1 server within bounds. Serve is called once; all methods
// may be called concurrently.
type Server struct {
	o    Options
	http *http.Server
}

// New returns a server; Serve starts it.
func New(o Options) *Server {
	s := &Server{o: o}
	s.http = &http.Server{
		Handler:           o.Limits.paced(withTLS(fewParameters(o.Handler))),
		ReadHeaderTimeout: o.Limits.Header,
		IdleTimeout:       o.Limits.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         new(http.Protocols),

		DisableGeneralOptionsHandler: o.OptionsToHandler,
		ErrorLog:                     slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := c.(*conn); ok {
				c.changed(state)
			}
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			mine, ok := c.(*conn)
			if !ok {
				return ctx // every connection is one of the listener's
			}
			if o.ConnContext != nil {
				ctx = o.ConnContext(ctx, mine.accepted)
			}
			return context.WithValue(ctx, connKey{}, mine)
		},
	}
	s.http.Protocols.SetHTTP1(true)
	return s
}

// Serve answers callers of ln until Shutdown or Close, then it returns
// http.ErrServerClosed.
func (s *Server) Serve(ln net.Listener) error { return s.http.Serve(s.bound(ln)) }

func (s *Server) bound(ln net.Listener) *listener {
	conf := s.o.TLS
	if conf != nil {
		conf = conf.Clone()
		conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if c, ok := hello.Conn.(*shaking); ok {
				return nil, c.enter(hello.Context()) // nil is conf itself
			}
			return nil, nil
		}
		conf.NextProtos = []string{"http/1.1"}
	}
	return &listener{
		Listener: ln, limits: s.o.Limits, tls: conf, trusted: s.o.Trusted, begin: s.o.Begin, failed: s.o.Failed,
		log: logs.Limit(s.o.Logger), descriptors: descriptorLimit, handshakes: admission.NewLine(handshakes, 1),
		tables: map[bool]*admission.Table{
			true:  admission.NewTable(s.o.Limits.Conns, s.o.Limits.Conns),
			false: admission.NewTable(s.o.Limits.Conns, s.o.Limits.Share),
		},
	}
}

// Shutdown takes no more calls and waits for answers under way; see http.Server.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close ends all connections; see http.Server.
func (s *Server) Close() error { return s.http.Close() }

// fewParameters refuses a query of more than maxParameters, which no client needs.
func fewParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Count(r.URL.RawQuery, "&") < maxParameters {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		// The caller is all there is to tell.
		_, _ = fmt.Fprintf(w, `{"error":{"message":"The query has more than %d parameters"}}`+"\n", maxParameters)
	})
}

// connKey finds a request's connection in its context.
type connKey struct{}

// withTLS tells next of the TLS connection, and the connection that its head is
// over: what follows is not counted as lines of a head.
func withTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.inHead.Store(false)
			if c.tls != nil {
				state := c.tls.ConnectionState()
				r.TLS = &state
			}
		}
		next.ServeHTTP(w, r)
	})
}
