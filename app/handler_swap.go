package app

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/api/web"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// front is what answers on api.listen, by one configuration. Requests that have
// begun end by the one that they began with.
type front struct {
	keeper  keeper
	handler http.Handler
	local   http.Handler // on the socket, below api.SocketPath
}

// doorway is where the front in force stands; nil before the API is opened. All servers
// of a peer share its admission, which outlives a front.
type doorway struct {
	now       atomic.Pointer[front]
	first     keeper // while there is no front
	admission *admission.Controller
}

// ServeHTTP implements http.Handler.
func (d *doorway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.now.Load().handler.ServeHTTP(w, r)
}

// onSocket is what the socket answers: the API below api.SocketPath, for this host's operators,
// who need no credentials there; else the control interface.
func (d *doorway) onSocket(control http.Handler) http.Handler {
	local := api.Identified(http.StripPrefix(api.SocketPath,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.now.Load().local.ServeHTTP(w, r) })))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, api.SocketPath+"/") {
			local.ServeHTTP(w, r)
			return
		}
		control.ServeHTTP(w, r)
	})
}

// newFront makes all that this peer answers on api.listen.
func (p *Peer) newFront(conf config.Config, k keeper) (*front, error) {
	health := api.Health{Checks: p.self.Checks, Metrics: p.figures, Admission: p.serving.admission,
		Proxies: networks(conf.API.TrustedProxies), Healthcheck: conf.API.Healthcheck}
	inspector := p.inspectorAPI(conf, k)
	public := p.figures.Timed(api.Public(health, inspector))
	local := api.Public(health, p.inspectorAPI(conf, keeper{auth: api.SocketAuth{}}))
	if !conf.API.UI {
		return &front{k, public, local}, nil
	}
	page, err := web.New(web.Options{
		Public: public, Control: p.admin.Handler(), Guard: inspector, Admission: p.serving.admission,
		Proxies: inspector.Proxies,
		Logins:  api.NewLogins(inspector.Proxies, p.figures.LoggedIn, p.opts.Logger), Strategy: conf.API.AuthStrategy,
		Peer: p.id.Name,
		Sources: web.Sources{View: p.core.Store.View, StaleFor: p.self.Members.Stale, Names: p.names, Facts: &p.admin.Host,
			Boot: func(node string) *api.Boot { return api.BootOf(p.core.Store.View(), node) }},
		Wall: p.opts.Wall, Random: p.opts.Random, Logger: p.opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	// The page answers at its paths alone: all others are the contract's, as they were sent.
	front := &front{keeper: k, local: local}
	front.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == strings.TrimSuffix(web.Path, "/") || strings.HasPrefix(r.URL.Path, web.Path) {
			page.ServeHTTP(w, r)
			return
		}
		public.ServeHTTP(w, r)
	})
	return front, nil
}

// inspectorAPI is the REST API of the inspector on this peer.
func (p *Peer) inspectorAPI(conf config.Config, k keeper) *api.Inspector {
	served := &api.Inspector{
		Service: p.core.Service, Auth: k.auth, MaxLimit: conf.Inspection.APIMaxLimit, Logger: p.opts.Logger,
		StaleFor: p.core.age,
		Callbacks: api.CallbackLimit{Rate: conf.API.CallbackRate, Burst: conf.API.CallbackBurst,
			Refused: p.figures.Throttled.Inc, Expected: p.core.Service.Expects},
		Proxies:   networks(conf.API.TrustedProxies),
		Admission: p.serving.admission,
		Nodes: api.Nodes{Names: p.names, Hardware: p.core.Service.Hardware(), Boots: p.core.Service,
			Waits: nodeWaits{p.self, p.names}},
		ClusterReads: api.ClusterReads{Events: p.events, Status: p.self.Status},
		Report:       p.recorder.Report,
	}
	if conf.Inspection.ContinueInspection != config.ContinueOff {
		served.Inband = p.core.Service
	}
	if conf.Lease.Enabled {
		served.Lending = p.core.Lending
	}
	return served
}

// nodeWaits tells what nodes wait for.
type nodeWaits struct {
	self  *health.Self
	names api.Names
}

// WaitsOf implements api.NodeWaits.
func (n nodeWaits) WaitsOf(ctx context.Context, ref string) ([]api.Wait, error) {
	if ironic.IsUUID(ref) {
		return n.self.WaitsOf(strings.ToLower(ref)), nil
	}
	named, err := n.names.Of(ctx, ref)
	if err != nil {
		return nil, err
	}
	return n.self.WaitsOf(named.UUID), nil
}
