package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// Host is what this host and its peer say of themselves, and the others of theirs. But
// for names, which Ironic has, and the other hosts, nothing blocks or needs a quorum.
type Host struct {
	Status   func() api.Status
	Peers    func() []api.Peer
	Firewall func() api.Firewall
	Explain  func(mac string) (api.Explanation, error) // refuses what is no MAC
	Heard    func() api.Heard
	Examine  func(ctx context.Context) doctor.Facts // within bounded time
	Bundle   func() []supportbundle.File            // for support, without secrets
	View     func() fsm.View
	Names    api.Names
	// Ask sends all other members a GET of a path on the peers' port; see Here.Ask.
	Ask func(ctx context.Context, path string) []Answer
}

// HostFiles are the files of one host.
type HostFiles struct {
	Peer  string               `json:"peer"`
	Files []supportbundle.File `json:"files"`
}

func (h *Host) routes(g *echo.Group) {
	g.GET("/status", h.status(admission.NewShared[bool, api.Status](time.Second, 1)))
	g.GET("/peers", get(func(context.Context, echo.Context) ([]api.Peer, error) { return h.Peers(), nil }))
	g.GET("/firewall", h.firewall)
	g.GET("/firewall"+explain+":machine", h.explain)
	g.GET("/firewall"+heard, h.heard)
	g.GET("/doctor", get(func(ctx context.Context, c echo.Context) ([]doctor.Facts, error) {
		return h.Facts(ctx, everywhere(c)), nil
	}))
	g.GET("/debug/profile", profile)
	g.GET("/debug/bundle", get(func(context.Context, echo.Context) (HostFiles, error) {
		return HostFiles{Peer: h.Status().Name, Files: h.Bundle()}, nil
	}))
}

// peerRoutes answer other peers.
func (h *Host) peerRoutes(e *echo.Echo) {
	e.GET(PathPeerFirewall, get(func(context.Context, echo.Context) (api.Firewall, error) { return h.Firewall(), nil }))
	e.GET(PathPeerFirewall+explain+":mac",
		get(func(_ context.Context, c echo.Context) (api.Explanation, error) { return h.Explain(c.Param("mac")) }))
	e.GET(PathPeerFirewall+heard, get(func(context.Context, echo.Context) (api.Heard, error) { return h.Heard(), nil }))
	e.GET(PathPeerDoctor, func(c echo.Context) error { return c.JSON(http.StatusOK, h.Examine(c.Request().Context())) })
}

// status is computed once a second for all who ask from elsewhere: it counts through the
// tables. Who asks on the socket gets a new one, since scripts wait for what it says.
func (h *Host) status(shared *admission.Shared[bool, api.Status]) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		if api.OnSocket(ctx) {
			return ctx.JSON(http.StatusOK, h.Status())
		}
		s, err := shared.Get(true, func() (api.Status, error) { return h.Status(), nil })
		if err != nil {
			return err
		}
		return ctx.JSON(http.StatusOK, s)
	}
}
