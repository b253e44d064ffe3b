package app

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
)

// front is what answers on api.listen, by one configuration. Requests that have
// begun end by the one that they began with.
type front struct {
	keeper  keeper
	handler http.Handler
}

// doorway is where the front in force stands; nil before the API is opened.
type doorway struct{ now atomic.Pointer[front] }

// ServeHTTP implements http.Handler.
func (d *doorway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.now.Load().handler.ServeHTTP(w, r)
}

// newFront makes all that this peer answers on api.listen.
func (p *Peer) newFront(conf config.Config, k keeper) *front {
	health := api.Health{Checks: p.checks, Metrics: p.registry, Healthcheck: conf.API.Healthcheck}
	return &front{k, p.timed(api.Public(health, p.inspectorAPI(conf, k)))}
}

// inspectorAPI is the REST API of the inspector on this peer.
func (p *Peer) inspectorAPI(conf config.Config, k keeper) *api.Inspector {
	served := &api.Inspector{
		Service: p.core.Service, Auth: k.auth, MaxLimit: conf.Inspection.APIMaxLimit, Logger: p.opts.Logger,
		StaleFor:  func() time.Duration { return p.stale(p.core.Store.Stats()) },
		Logs:      p.core.Service.Logs,
		Callbacks: api.CallbackLimit{Rate: conf.API.CallbackRate, Burst: conf.API.CallbackBurst, Refused: p.throttled.Inc},
		Proxies:   networks(conf.API.TrustedProxies),
		Names:     p.names,
	}
	if conf.Inspection.ContinueInspection != config.ContinueOff {
		served.Successor = p.core.Service
	}
	if conf.Lease.Enabled {
		served.Lending = p.core.Lending
	}
	return served
}
