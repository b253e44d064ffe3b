package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
)

// upgradeLimit bounds a finalization: each host may wait for a leader.
const upgradeLimit = 34 * time.Second

// Finalize asks for the end of an upgrade.
type Finalize struct {
	DryRun bool `json:"dry_run,omitempty"`
}

// UpgradeState says how far an upgrade is.
type UpgradeState struct {
	LogVersion int           `json:"log_version"` // in force, or that was when it was asked for
	Newest     int           `json:"newest"`      // that the answering peer's binary knows
	Finalized  bool          `json:"finalized"`
	Hosts      []UpgradeHost `json:"hosts"`
	HeldBack   []string      `json:"held_back"`             // what waits for the newest
	RunningFor string        `json:"running_for,omitempty"` // all hosts; "" if one does not run
	Missing    []string      `json:"missing"`               // why it cannot be finalized
}

// UpgradeHost is one member in it.
type UpgradeHost struct {
	Name      string `json:"name"`
	Binary    string `json:"version"`
	Knows     int    `json:"knows"`     // newest log version of the running program; 0: not known
	Announced int    `json:"announced"` // log version
	Problem   string `json:"problem,omitempty"`
}

// Upgrade is where an upgrade ends.
type Upgrade struct {
	*Here
	Finalizer *cluster.Finalizer
}

func (u *Upgrade) routes(g *echo.Group) {
	g.GET("/upgrade", get(func(ctx context.Context, _ echo.Context) (UpgradeState, error) {
		plan, err := u.Finalizer.Plan(ctx)
		return u.state(plan), err
	}))
	g.POST("/upgrade/finalize", serve(http.StatusOK, upgradeLimit,
		func(ctx context.Context, _ echo.Context, in Finalize) (UpgradeState, error) {
			return u.finalize(ctx, in)
		}))
}

// peerRoutes answer other peers.
func (u *Upgrade) peerRoutes(e *echo.Echo) {
	e.GET(cluster.PathUpgrade, get(func(context.Context, echo.Context) (cluster.LogVersion, error) {
		return cluster.LogVersion{Version: u.Finalizer.Knows()}, nil
	}))
	e.POST(cluster.PathUpgrade, get(func(ctx context.Context, c echo.Context) (struct{}, error) {
		version, err := strconv.Atoi(c.QueryParam("version"))
		if err != nil {
			return struct{}{}, invalid("version: %v", err)
		}
		return struct{}{}, u.Finalizer.Session.Announce(ctx, u.Store, version)
	}))
}

// finalize carries out the plan that a dry run shows.
func (u *Upgrade) finalize(ctx context.Context, in Finalize) (UpgradeState, error) {
	plan, err := u.Finalizer.Plan(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	if err := plan.Refusal(); err != nil {
		return UpgradeState{}, err
	}
	if !in.DryRun {
		err = u.Finalizer.Finalize(ctx, plan)
	}
	return u.state(plan), err
}

func (u *Upgrade) state(plan cluster.Finalization) UpgradeState {
	out := UpgradeState{LogVersion: plan.From, Newest: plan.To, Finalized: plan.From == plan.To,
		HeldBack: append([]string{}, fsm.HeldBack(plan.From)...), Missing: append([]string{}, plan.Missing()...)}
	for _, h := range plan.Hosts {
		out.Hosts = append(out.Hosts, UpgradeHost{Name: h.Name, Binary: h.Binary, Knows: h.Knows, Announced: h.Version,
			Problem: h.Problem})
	}
	if ran, all := cluster.AllRunFor(u.Store.View()); all {
		out.RunningFor = ran.Round(time.Second).String()
	}
	return out
}
