package admin

import (
	"log/slog"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Control is the interface of one peer for its operators: on the unix socket,
// and on the peers' port for operator certificates. Each part serves its own routes.
type Control struct {
	State         State
	Host          Host
	Logs          Logs
	Membership    *Membership
	Keys          *Keys
	Drill         *Drill
	Upgrade       *Upgrade
	Configuration *Configuration
	Kube          KubeControl
	Import        Importer // nil: nothing is introspected
	Events        *events.Hub
	Admission     *admission.Controller  // nil: one of its own
	Report        func(eventring.Report) // records the audit as events; nil: it is not recorded
	Logger        *slog.Logger           // of the audit
}

const (
	pathSnapshot      = "/v1/snapshot"
	pathImportRecords = "/v1/import/records"
	pathImportRules   = "/v1/import/rules"
)

// Handler returns the routes of c.
func (c *Control) Handler() http.Handler { return api.Identified(c.routes()) }

func (c *Control) routes() *echo.Echo {
	if c.Admission == nil {
		c.Admission = admission.NewController()
	}
	e := api.Front{Class: class, Told: isAudited, Admission: c.Admission, Report: c.Report, Logger: c.Logger}.Echo()
	g := e.Group("/v1")
	e.Use(dryRun)
	dry := g.Group(pathDryRun) // middleware of its own would make routes of all that is below it
	for _, changes := range []func(*echo.Group){
		c.State.changes, c.Membership.changes, c.Keys.changes, c.Configuration.changes,
	} {
		changes(g)
		changes(dry)
	}
	c.State.routes(g)
	c.Host.routes(g)
	c.Logs.routes(g)
	g.GET("/members", see(&c.State, c.members))
	c.Membership.routes(g)
	c.Keys.routes(g)
	c.Drill.routes(g)
	c.Upgrade.routes(g)
	c.Kube.routes(g)
	g.GET("/events", func(ctx echo.Context) error { return api.OperatorEvents(ctx, c.Events) })
	e.POST(pathImportRecords, c.importRecord)
	e.POST(pathImportRules, c.importRule)
	return e
}

// PeerRoutes are what another peer asks on behalf of an operator, with their classes.
// What lasts is a stream.
func PeerRoutes() map[string]admission.Class {
	return map[string]admission.Class{
		"GET " + PathPeerSafe:           admission.Dear,
		"GET " + PathPeerFirewall:       admission.Dear,
		"GET " + PathPeerFirewall + "/": admission.Dear,
		"GET " + PathPeerDoctor:         admission.Dear,
		"GET " + PathPeerLog:            admission.Dear,
		"GET " + PathPeerDrill:          admission.Stream, // it looks on for a while
		"POST " + PathPeerDrill:         admission.Request,
		"GET " + cluster.PathUpgrade:    admission.Request,
		"POST " + cluster.PathUpgrade:   admission.Request,
		"GET " + PathPeerFailover:       admission.Dear,
		"GET " + PathPeerFailover + "/": admission.Dear,
	}
}

// PeerHandler answers PeerRoutes. Let members through to it alone.
func (c *Control) PeerHandler() http.Handler {
	e := api.NewEcho()
	c.Host.peerRoutes(e)
	c.Logs.peerRoutes(e)
	e.GET(PathPeerSafe, get(c.Membership.safe))
	c.Drill.peerRoutes(e)
	c.Upgrade.peerRoutes(e)
	c.Kube.peerRoutes(e)
	return e
}

// class is the class of a route: what the page at /ui/ shows to every user costs what it costs.
func class(method, path string) admission.Class {
	dear := []string{"/v1/firewall" + explain + ":machine", "/v1/firewall" + heard, "/v1/events", "/v1/log"}
	if method == http.MethodGet && slices.Contains(dear, path) {
		return admission.Dear
	}
	return admission.Request
}

// isAudited tells the calls that change something, and that which takes the whole
// state away, the cluster's keys in it. A check of an import changes nothing, and
// there are as many as nodes.
func isAudited(ctx echo.Context) bool {
	switch ctx.Request().Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return ctx.Path() == pathSnapshot
	case http.MethodPost:
		return !checking(ctx) || ctx.Path() != pathImportRecords && ctx.Path() != pathImportRules
	}
	return true
}
