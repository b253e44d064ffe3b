package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// PathPeerDoctor is where peers ask each other for the facts of their hosts.
const PathPeerDoctor = "/peer/v1/doctor"

// factsLimit bounds the wait for the facts of all hosts: longer than a host
// takes, shorter than a command waits.
const factsLimit = 12 * time.Second

// Facts returns what this host knows of itself, and with all what the other hosts
// do, by name. It takes at most 12 s and needs no quorum.
func (h *Host) Facts(ctx context.Context, all bool) []doctor.Facts {
	limited, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	var work sync.WaitGroup
	var rows []doctor.Facts
	if all {
		work.Go(func() { rows = others(limited, h.Ask) })
	}
	own := h.Examine(limited)
	work.Wait()
	rows = append(rows, own)
	slices.SortStableFunc(rows, func(a, b doctor.Facts) int { return strings.Compare(a.Peer, b.Peer) })
	return rows
}

// others are the facts of the other hosts; of one that says nothing, why.
func others(ctx context.Context, ask func(context.Context, string) []Answer) []doctor.Facts {
	var rows []doctor.Facts
	for _, a := range ask(ctx, PathPeerDoctor) {
		var row doctor.Facts
		if a.decode(&row); a.Err != nil {
			row = doctor.Facts{Error: a.Err.Error()}
		}
		row.Peer, row.ID = a.Name, a.ID // as the cluster calls it, not as it calls itself
		rows = append(rows, row)
	}
	return rows
}
