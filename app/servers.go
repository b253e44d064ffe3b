package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
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
