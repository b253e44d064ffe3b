package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// HealthCheck is one line of readyz.
type HealthCheck struct {
	Name string
	Err  error // nil: good
}

// Health answers load balancers and monitoring, without credentials and
// without ever waiting for a quorum.
type Health struct {
	// Checks are made at every call of readyz; they must not block.
	Checks func() []HealthCheck
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
}

// Handler returns /livez, /readyz, /healthz and /metrics.
func (h Health) Handler() http.Handler {
	e := newEcho()
	e.GET("/livez", func(ctx echo.Context) error { return ctx.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", h.ready)
	e.GET("/healthz", h.ready)
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(h.Metrics, promhttp.HandlerOpts{})))
	return e
}

// ready says whether requests can be served through this peer.
func (h Health) ready(ctx echo.Context) error {
	var text strings.Builder
	status := http.StatusOK
	for _, c := range h.Checks() {
		if c.Err == nil {
			fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
			continue
		}
		status = http.StatusServiceUnavailable
		fmt.Fprintf(&text, "[-]%s: %v\n", c.Name, c.Err)
	}
	if !ctx.QueryParams().Has("verbose") && status == http.StatusOK {
		return ctx.String(status, "ok\n")
	}
	return ctx.String(status, text.String())
}
