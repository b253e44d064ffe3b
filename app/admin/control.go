package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of the control interface.
const (
	maxControlBody = 64 << 10
	adminLimit     = 30 * time.Second
)

// Log reads the replicated state.
type Log interface {
	Read(ctx context.Context) (fsm.View, error) // linearizable
	View() fsm.View                             // as this peer has applied it
}

// Local is what a peer says of itself; it needs no quorum and never blocks.
type Local interface {
	Status() api.Status
	Peers() []api.Peer
}

// Admin is what changes this peer or the cluster's shape.
type Admin interface {
	// Transfer moves leadership to a name or ID, "" for the best voter.
	Transfer(ctx context.Context, to string) (newLeader string, err error)
	// Leave takes this peer out of the cluster for good; it stops afterwards.
	Leave(ctx context.Context, force bool) error
	// Remove takes another peer, by name or ID, out of the cluster.
	Remove(ctx context.Context, peer string, force bool) error
}

// Keys makes credentials and tokens.
type Keys interface {
	NewJoinToken(ctx context.Context, ttl time.Duration) (Token, error)
	IssueOperator(ctx context.Context, name string) (Credentials, error)
	// RevokeOperator voids all that was issued to this name up to now.
	RevokeOperator(ctx context.Context, name string) error
}

// Snapshots copies the whole state out.
type Snapshots interface {
	Save(ctx context.Context, w io.Writer) error
}

// Control is the interface of one peer for its operators: on the unix socket,
// and on the peers' port for operator certificates.
type Control struct {
	Local      Local
	Log        Log
	Do         api.Doer
	Admin      Admin
	Keys       Keys
	Trust      Trust
	Snapshots  Snapshots
	Filter     Filter
	Others     Others
	Doctor     Doctor
	Import     Importer // nil: nothing is introspected
	Kube       KubeControl
	Reloader   Reloader
	Membership Membership
	Safety     Safety
	Drill      Drill
	Bundler    Bundler
	Names      api.Names
	Events     api.EventSource
	Admission  *admission.Controller // nil: one of its own
	Report     func(fsm.EventReport) // records the audit as events; nil: it is not recorded
	Logger     *slog.Logger          // of the audit
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
	e := api.Front{Class: class, Told: told, Admission: c.Admission, Report: c.Report, Logger: c.Logger}.Echo()
	g := e.Group("/v1")
	g.GET("/status", c.status(admission.NewShared[bool, api.Status](time.Second, 1)))
	g.GET("/peers", c.peers)
	g.GET("/members", c.members)
	g.DELETE("/members/:peer", c.removeMember)
	g.POST("/leave", c.leave)
	g.POST("/transfer", c.transfer)
	g.POST("/config/reload", c.reload)
	g.POST("/drill", c.drill)
	g.GET("/tokens", c.tokens)
	g.POST("/tokens", c.newToken)
	g.DELETE("/tokens/:id", c.revokeToken)
	g.GET("/settings", c.settings)
	g.GET("/settings/:key", c.setting)
	g.PUT("/settings/:key", c.putSetting)
	g.DELETE("/settings/:key", c.deleteSetting)
	g.GET("/nodes/sync", c.sync)
	g.PUT("/nodes/sync", c.confirmSync)
	g.GET("/relays", c.relays)
	g.GET("/events", func(ctx echo.Context) error { return api.OperatorEvents(ctx, c.Events) })
	g.GET("/firewall", c.firewall)
	g.GET("/firewall"+explain+":machine", c.explain)
	g.GET("/doctor", c.doctor)
	c.kubeRoutes(g)
	c.trustRoutes(g)
	c.shapeRoutes(g)
	g.POST("/operators/:name", c.newOperator)
	g.GET("/snapshot", c.saveSnapshot)
	g.PUT("/snapshot", restoreGone)
	e.POST(pathImportRecords, c.importRecord)
	e.POST(pathImportRules, c.importRule)
	g.GET("/debug/check", c.check)
	g.GET("/debug/dump", c.dump)
	g.GET("/debug/bundle", c.bundle)
	return e
}

// class is the class of a route. What the page at /ui/ shows to every user costs what it
// costs; all else is for operators.
func class(method, path string) admission.Class {
	if method != http.MethodGet {
		return admission.Operator
	}
	switch path {
	case "/v1/status", "/v1/members", "/v1/failover", "/v1/failover/remediations":
		return admission.Read
	case "/v1/firewall" + explain + ":machine", "/v1/events":
		return admission.Dear
	}
	return admission.Operator
}

// told tells the calls that change something, and that which takes the whole
// state away, the cluster's keys in it. A check of an import changes nothing, and
// there are as many as nodes.
func told(ctx echo.Context) bool {
	switch ctx.Request().Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return ctx.Path() == pathSnapshot
	case http.MethodPost:
		return !checking(ctx) || ctx.Path() != pathImportRecords && ctx.Path() != pathImportRules
	}
	return true
}

// status is computed once a second for all who ask from elsewhere: it counts through the
// tables. Who asks on the socket gets a new one, since scripts wait for what it says.
func (c *Control) status(shared *admission.Shared[bool, api.Status]) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		if api.OnSocket(ctx) {
			return ctx.JSON(http.StatusOK, c.Local.Status())
		}
		s, err := shared.Get(true, func() (api.Status, error) { return c.Local.Status(), nil })
		if err != nil {
			return err
		}
		return ctx.JSON(http.StatusOK, s)
	}
}

func (c *Control) peers(ctx echo.Context) error { return ctx.JSON(http.StatusOK, c.Local.Peers()) }

// read returns a linearizable view, or with ?stale=1 this peer's own.
func (c *Control) read(ctx echo.Context) (fsm.View, error) {
	if ctx.QueryParam("stale") == "1" {
		ctx.Response().Header().Set("X-Stale-For", fmt.Sprint(c.Local.Status().StaleMS))
		return c.Log.View(), nil
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit/4)
	defer cancel()
	return c.Log.Read(limited)
}

func (c *Control) members(ctx echo.Context) error {
	v, err := c.read(ctx)
	if err != nil {
		return err
	}
	out := []Member{}
	rows := make(map[string]api.Peer)
	for _, row := range c.Local.Peers() {
		rows[row.ID] = row
	}
	for _, m := range v.Members() {
		flags, row := v.MemberFlags(m.ID), rows[m.ID]
		out = append(out, Member{
			Voter: row.Voter, Leader: row.Leader, Contact: row.Contact,
			Name: m.Name, ID: m.ID, Address: m.Address, Gossip: m.Gossip, API: m.API,
			Version: m.Version, Binary: m.Binary, Joined: wallTime(m.JoinedWall),
			Observer: flags.Observer, Maintenance: flags.Maintenance, MaintenanceSince: wallTime(flags.MaintenanceWall),
		})
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return ctx.JSON(http.StatusOK, out)
}

// wallTime shows a moment for people; the log's own clock is not one.
func wallTime(unixMillis int64) string {
	if unixMillis == 0 {
		return ""
	}
	return time.UnixMilli(unixMillis).UTC().Format(time.RFC3339)
}

func (c *Control) removeMember(ctx echo.Context) error {
	limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit)
	defer cancel()
	if ctx.QueryParam("dead") == "1" {
		if err := c.Membership.Dead(limited, ctx.Param("peer")); err != nil {
			return err
		}
	}
	if err := c.Admin.Remove(limited, ctx.Param("peer"), ctx.QueryParam("force") == "1"); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}

func (c *Control) leave(ctx echo.Context) error {
	var in Leave
	if err := body(ctx, &in); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit)
	defer cancel()
	if err := c.Admin.Leave(limited, in.Force); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}

func (c *Control) transfer(ctx echo.Context) error {
	var in Transfer
	if err := body(ctx, &in); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit)
	defer cancel()
	to, err := c.Admin.Transfer(limited, in.To)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, Transfer{To: to})
}

// body decodes a bounded JSON object; unknown fields are mistakes.
func body(ctx echo.Context, into any) error {
	r := http.MaxBytesReader(ctx.Response(), ctx.Request().Body, maxControlBody)
	defer r.Close()
	return decodeStrict(r, into)
}

// clientSpace keeps the request IDs of this interface apart from others'.
const clientSpace = "control/"

// do commits a command for the caller and returns its result or refusal.
func (c *Control) do(ctx echo.Context, cmd fsm.Command) (fsm.Result, error) {
	client := ctx.Request().Header.Get(echo.HeaderXRequestID)
	if client != "" {
		client = clientSpace + client
	}
	if len(client) > fsm.MaxClient {
		return fsm.Result{}, &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid,
			Message: fmt.Sprintf("X-Request-Id: at most %d bytes", fsm.MaxClient-len(clientSpace))}
	}
	res, err := api.Traced(c.Do).Do(ctx.Request().Context(), client, cmd)
	if err != nil {
		return res, err
	}
	return res, res.Err()
}

func (c *Control) newOperator(ctx echo.Context) error {
	cred, err := c.Keys.IssueOperator(ctx.Request().Context(), ctx.Param("name"))
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusCreated, cred)
}

func (c *Control) check(ctx echo.Context) error {
	v := c.Log.View()
	out := Check{OK: true, Index: v.Index(), Hash: fmt.Sprintf("%x", v.Hash()), Version: v.ClusterVersion()}
	if err := v.Check(); err != nil {
		out.OK, out.Problem = false, err.Error()
	}
	return ctx.JSON(http.StatusOK, out)
}

func (c *Control) dump(ctx echo.Context) error {
	ctx.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	return c.Log.View().Dump(ctx.Response())
}

// Check is the answer of the invariant check.
type Check struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
	Index   uint64 `json:"applied_index"`
	Hash    string `json:"hash"`
	Version int    `json:"cluster_version"`
}
