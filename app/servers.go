package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/portholder"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
)

// spareDescriptors are left by callers from elsewhere to the log, the connections
// between peers, Ironic's, and the socket. spareForHost are left by the socket.
const (
	spareDescriptors = 512
	spareForHost     = 64
)

// APILimits are the bounds of the API's server and of the webhook's.
func APILimits() httpserver.Limits {
	return httpserver.Limits{
		Header: 10 * time.Second, Idle: 2 * time.Minute,
		Body: time.Minute, Stall: 10 * time.Second, BodyStep: 128 << 10,
		Write: 20 * time.Second,
		Conns: 4096, Share: 2048, Spare: spareDescriptors,
	}
}

// serving is what answers on this peer's listeners, but for the peers' port.
type serving struct {
	*doorway
	limits  httpserver.Limits // of public servers
	config  func() config.Config
	files   *health.Descriptors
	log     *slog.Logger
	api     net.Listener
	servers []*httpserver.Server
	// ramdisks is the port that ramdisks alone call, nil if there is none.
	ramdisks *RamdiskPort
	running  sync.WaitGroup // and all other goroutines of the peer
}

// public are the parts of a server on a port that others may reach. Every answer names
// its request.
func (s *serving) public(port admission.Port, h http.Handler, conf *tls.Config) httpserver.Options {
	cost := admission.InClear
	if conf != nil {
		cost = admission.ByTLS
	}
	begin := func(ctx context.Context, from netip.Addr) error {
		if s.trusted(from) {
			return nil // it calls for many
		}
		return s.admission.Connect(ctx, admission.SourceOf(from), false, cost)
	}
	h = api.Identified(api.Visited(s.admission, port, s.proxies, h))
	return httpserver.Options{Handler: h, Limits: s.limits, TLS: conf, Trusted: s.trusted, Begin: begin,
		Failed: s.files.Note, Logger: s.log}
}

func (s *serving) proxies() []netip.Prefix { return networks(s.config().API.TrustedProxies) }

// trusted reports whether an address is a proxy's that the configuration names: it
// calls for many.
func (s *serving) trusted(address netip.Addr) bool {
	return slices.ContainsFunc(s.proxies(), func(n netip.Prefix) bool { return n.Contains(address) })
}

// start answers on ln until close.
func (s *serving) start(ln net.Listener, srv *httpserver.Server) {
	s.servers = append(s.servers, srv)
	s.serve(ln, srv)
}

// serve answers on ln until the caller ends the server.
func (s *serving) serve(ln net.Listener, srv *httpserver.Server) {
	s.running.Go(func() {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("serve listener failed", "address", ln.Addr(), "err", err)
		}
	})
}

// close takes no more calls. Answers under way may still be written, that of a leave
// above all.
func (s *serving) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	var errs []error
	for _, srv := range s.servers {
		if srv.Shutdown(ctx) != nil { // a caller holds its connection
			errs = append(errs, srv.Close())
		}
	}
	return errors.Join(errs...)
}

// peerRoutes are what this peer answers on the peers' port. What an operator asks
// through another peer is dear; what lasts is a stream; by all else the other peer and
// the log live.
func (p *Peer) peerRoutes() *cluster.Routes {
	store, by := p.core.Store, p.serving.admission
	routes := cluster.NewRoutes(store, by)
	joins := cluster.NewAdmission(by, p.core.Session, store, p.opts.Wall, p.opts.Random, p.opts.Logger,
		func() cluster.Shared { return p.serving.shared(p.conf.Current()) })
	routes.Joiners(cluster.PathJoin, joins)
	routes.Joiners(cluster.PathObserve, joins)
	routes.Joiners(cluster.PathSettings, joins)
	routes.Joiners(cluster.PathRejoin, http.HandlerFunc(cluster.RefuseRejoin))
	lending := cluster.AnswerHandler(p.core.AnswerLending)
	for _, r := range []struct {
		class   admission.Class
		pattern string
		handler http.Handler
	}{
		{admission.Request, "GET " + cluster.PathContact, cluster.ContactHandler(p.core.Contacts, p.self.Report)},
		{admission.Request, "GET " + cluster.PathAge, cluster.AgeHandler(store)},
		{admission.Request, "GET " + cluster.PathRights, p.access.RightsHandler(store)},
		{admission.Request, "POST " + cluster.PathMove, cluster.MoveHandler(p.core.Session)},
		{admission.Request, "POST " + leaderrpc.PathStep, lending},
		{admission.Stream, "POST " + leaderrpc.PathAwaitEnd, lending},
	} {
		routes.Members(r.class, r.pattern, r.handler)
	}
	peers := p.admin.PeerHandler()
	for pattern, class := range admin.PeerRoutes() {
		routes.Members(class, pattern, peers)
	}
	routes.Operators("/v1/", p.admin.Handler())
	return routes
}

// ListenError says that nothing can listen on the address, or path, of an option.
type ListenError struct {
	Option  string // key of the configuration
	Address string // its value
	Err     error
	Holder  string // what has the port, as far as it is known; ""
}

// newListenError finds out what is in the way.
func newListenError(option, address string, err error) *ListenError {
	return &ListenError{option, address, err, portholder.InTheWay(err)}
}

// Error implements error.
func (e *ListenError) Error() string {
	reason := e.Err
	var number syscall.Errno
	var op *net.OpError
	switch { // what package net puts around it is said already
	case errors.As(e.Err, &number):
		reason = number
	case errors.As(e.Err, &op):
		reason = op.Err
	}
	text := fmt.Sprintf("listen on %s (%s): %v", e.Address, e.Option, reason)
	if e.Holder != "" {
		text += " by " + e.Holder
	}
	return text
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *ListenError) Unwrap() error { return e.Err }

// listen listens on an address of the configuration.
func listen(ctx context.Context, option, address string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, newListenError(option, address, err)
	}
	return ln, nil
}

// Reasons for which a socket's path is not taken over.
var (
	ErrSocketServed = errors.New("another process answers there")
	ErrNotSocket    = errors.New("a file that is no socket is in the way")
)

// listenSocket listens on a Unix socket that only this user may open. It replaces
// a socket that a killed process left, and nothing else: a process with another
// data directory may serve on the path.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	failed := func(err error) error { return newListenError("socket", path, err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, failed(err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, failed(err)
	}
	lc := net.ListenConfig{Control: private}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, failed(err)
	}
	return ln, nil
}

// private gives a socket the mode with which its file is made: a caller that connected
// before the mode was changed would stay connected. Linux makes the file with the
// mode of the socket, less the umask.
func private(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) { set = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(err, set)
}

// socketLimit bounds the question whether a process listens on the socket.
const socketLimit = time.Second

// removeStale removes a socket on which no process listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return ErrNotSocket
	}
	d := net.Dialer{Timeout: socketLimit}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(ErrSocketServed, conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default:
		return err
	}
}
