package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// HealthCheck is one line of readyz.
type HealthCheck struct {
	Name string
	Err  error // requests cannot be served through this peer; nil: they can
	// Warning is what is wrong although requests are served; nil: nothing.
	Warning error
	Note    string // what to add to a good one; "" for nothing
}

// Health answers load balancers and monitoring, without credentials and
// without ever waiting for a quorum.
type Health struct {
	// Checks are made at every call of readyz; they must not block.
	Checks func() []HealthCheck
	// Metrics is what /metrics shows. It is gathered once a second at most.
	Metrics prometheus.Gatherer
	// Admission and Proxies are those of Inspector.
	Admission *admission.Controller
	Proxies   []netip.Prefix
	// Healthcheck says whether /healthcheck is answered; if not, the
	// inspector's API says that it is no version of it.
	Healthcheck bool
}

// The paths of health. The original's own name for it, healthcheck, is there
// for load balancers that ask the original for it.
const (
	pathLive    = "/livez"
	pathReady   = "/readyz"
	pathHealth  = "/healthz"
	pathCheck   = "/healthcheck"
	pathMetrics = "/metrics"
)

func (h Health) answers(path string) bool {
	switch path {
	case pathLive, pathReady, pathHealth, pathMetrics:
		return true
	case pathCheck, pathCheck + "/":
		return h.Healthcheck
	}
	return false
}

// Handler returns /livez, /readyz, /healthz, /healthcheck and /metrics.
func (h Health) Handler() http.Handler {
	e := NewEcho()
	if h.Admission == nil {
		h.Admission = admission.NewController()
	}
	get := func(path string, f echo.HandlerFunc) {
		f = admitted(h.Admission, admission.Probe, func(c echo.Context) admission.Caller {
			return admission.Caller{Source: senderSource(c.Request(), h.Proxies), Known: path != pathMetrics}
		}, f)
		e.GET(path, f)
		e.HEAD(path, f)
	}
	e.Pre(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			routable(c.Request().URL)
			return next(c)
		}
	})
	get(pathLive, func(ctx echo.Context) error { return ctx.String(http.StatusOK, "ok\n") })
	get(pathReady, h.ready)
	get(pathHealth, h.ready)
	get(pathCheck, func(ctx echo.Context) error { // as ready does, by the status alone
		status, _ := h.checked()
		return ctx.String(status, "")
	})
	get(pathMetrics, exposition(h.Metrics))
	return Identified(e)
}

// ready says whether requests can be served through this peer.
func (h Health) ready(ctx echo.Context) error {
	status, text := h.checked()
	if !ctx.QueryParams().Has("verbose") && status == http.StatusOK {
		text = "ok\n"
	}
	return ctx.String(status, text)
}

// checked makes the checks and returns a line for each.
func (h Health) checked() (status int, lines string) {
	var text strings.Builder
	status = http.StatusOK
	for _, c := range h.Checks() {
		if c.Err == nil && c.Warning != nil {
			fmt.Fprintf(&text, "[!]%s: %v\n", c.Name, c.Warning)
			continue
		}
		if c.Err == nil {
			if c.Note != "" {
				c.Note = " (" + c.Note + ")"
			}
			fmt.Fprintf(&text, "[+]%s ok%s\n", c.Name, c.Note)
			continue
		}
		status = http.StatusServiceUnavailable
		fmt.Fprintf(&text, "[-]%s: %v\n", c.Name, c.Err)
	}
	return status, text.String()
}

// Public returns everything that a peer answers on api.listen: health, and the
// inspector's API for all other paths. Serve it as it is: a mux in front of it
// would answer some paths itself.
func Public(h Health, i *Inspector) http.Handler {
	health, introspection := h.Handler(), i.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.answers(r.URL.Path) {
			health.ServeHTTP(w, r)
			return
		}
		introspection.ServeHTTP(w, r)
	})
}
