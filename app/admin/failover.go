package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
)

// Kube is failover of kube nodes on one peer.
type Kube interface {
	// Failover says what would be done about every kube node. Only the leader
	// knows; others refuse.
	Failover(ctx context.Context) (Failover, error)
	// Simulate says what would be done if a kube node died now, in mode safe or noobaa,
	// "" for the one that is set. Only the leader knows; others refuse. cluster is
	// AnyCluster where the name says enough.
	Simulate(ctx context.Context, cluster, node, mode string) (Simulation, error)
	// Power asks the fence devices of a kube node or, with an order, switches
	// its machine. Every peer can.
	Power(ctx context.Context, cluster, node string, order *PowerOrder) (FencePower, error)
}

// Leading finds the peer that leads.
type Leading interface {
	// AskLeader sends the leader a GET of a path on the peers' port and returns
	// what it says. If this peer leads, nothing is sent and self is true.
	AskLeader(ctx context.Context, path string) (body []byte, self bool, err error)
}

// KubeControl is what operators reach of failover through one peer.
type KubeControl struct {
	Here    Kube // nil: failover is off on this peer
	Leading Leading
	Wall    func() time.Time // for what people read in the log
}

// AnyCluster stands where the name of a kube node says enough.
const AnyCluster = "-"

// PathPeerFailover is where peers ask each other about kube nodes.
const PathPeerFailover = "/peer/v1/failover"

// Parts of paths below both the operators' and the peers'.
const (
	pathSimulation = "/simulation/"
	pathPower      = "/power/"
	ofNode         = ":cluster/:node"
)

// Bounds of calls that ask others: an API server or a machine's BMC may be the
// one that died. Each is shorter than a command waits.
const (
	judgeLimit = 5 * time.Second
	powerLimit = 2 * time.Minute
)

// carried is an answer or a refusal on its way from peer to peer.
type carried[T any] struct {
	Value  T          `json:"value"`
	Error  *api.Error `json:"error,omitempty"`
	Status int        `json:"status,omitempty"` // of Error
}

func tell[T any](ctx echo.Context, value T, err error) error {
	if err != nil {
		refused := api.Refusal(err)
		return ctx.JSON(http.StatusOK, carried[T]{Error: refused, Status: refused.Status})
	}
	return ctx.JSON(http.StatusOK, carried[T]{Value: value})
}

// hear reads what tell wrote.
func hear[T any](body []byte) (value T, err error) {
	var said carried[T]
	if err := json.Unmarshal(body, &said); err != nil {
		return value, fmt.Errorf("decode response: %w", err)
	}
	if said.Error != nil {
		said.Error.Status = said.Status
		return value, said.Error
	}
	return said.Value, nil
}

// noKube is a peer on which failover is off.
type noKube struct{}

// Failover implements Kube.
func (noKube) Failover(context.Context) (Failover, error) { return Failover{}, errNoKube() }

// Simulate implements Kube.
func (noKube) Simulate(context.Context, string, string, string) (Simulation, error) {
	return Simulation{}, errNoKube()
}

// Power implements Kube.
func (noKube) Power(context.Context, string, string, *PowerOrder) (FencePower, error) {
	return FencePower{}, errNoKube()
}

// errNoKube is its refusal.
func errNoKube() error {
	return &api.Error{Status: http.StatusConflict, Code: api.CodeOff,
		Message: "failover of kube nodes is off: set failover.mode", Hint: "write failover.mode and failover.kubeconfigs in trivet.yaml on every peer, and restart it"}
}

// here is failover on this peer.
func (c *Control) here() Kube {
	if c.Kube.Here == nil {
		return noKube{}
	}
	return c.Kube.Here
}

// KubeHandler answers other peers; k is nil where failover is off. Let members
// through to it alone.
func KubeHandler(k Kube) http.Handler {
	if k == nil {
		k = noKube{}
	}
	e := api.NewEcho()
	e.GET(PathPeerFailover, func(ctx echo.Context) error {
		out, err := k.Failover(ctx.Request().Context())
		return tell(ctx, out, err)
	})
	e.GET(PathPeerFailover+pathSimulation+ofNode, func(ctx echo.Context) error {
		out, err := k.Simulate(ctx.Request().Context(), ctx.Param("cluster"), ctx.Param("node"), ctx.QueryParam("mode"))
		return tell(ctx, out, err)
	})
	e.GET(PathPeerFailover+pathPower+ofNode, func(ctx echo.Context) error {
		out, err := k.Power(ctx.Request().Context(), ctx.Param("cluster"), ctx.Param("node"), nil)
		return tell(ctx, out, err)
	})
	return e
}

// kubeRoutes adds the operators' routes of failover.
func (c *Control) kubeRoutes(g *echo.Group) {
	g.GET("/failover", c.failover)
	g.GET("/failover"+pathSimulation+ofNode, c.simulate)
	g.GET("/failover"+pathPower+ofNode, c.power)
	g.POST("/failover"+pathPower+ofNode, c.switchPower)
	g.GET("/failover/remediations", c.remediations)
	g.GET("/failover/remediations/:id", c.remediation)
	g.POST("/failover/remediations/:id/release", c.release)
	g.POST("/failover/pause", c.pause)
	g.POST("/failover/resume", c.resume)
}

// fromLeader returns what the leader says, which may be this peer.
func fromLeader[T any](ctx context.Context, l Leading, path string, own func(context.Context) (T, error)) (out T, err error) {
	limited, cancel := context.WithTimeout(ctx, judgeLimit)
	defer cancel()
	body, self, err := l.AskLeader(limited, path)
	switch {
	case err != nil:
		return out, err
	case self:
		return own(limited)
	}
	if out, err = hear[T](body); err != nil {
		return out, fmt.Errorf("the leader: %w", err)
	}
	return out, nil
}

func (c *Control) failover(ctx echo.Context) error {
	out, err := fromLeader(ctx.Request().Context(), c.Kube.Leading, PathPeerFailover, c.here().Failover)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, out)
}

// below is a path about one kube node, for another peer.
func below(ctx echo.Context, part string) string {
	return PathPeerFailover + part + url.PathEscape(ctx.Param("cluster")) + "/" + url.PathEscape(ctx.Param("node"))
}

func (c *Control) simulate(ctx echo.Context) error {
	mode, path := ctx.QueryParam("mode"), below(ctx, pathSimulation)
	if mode != "" && mode != "safe" && mode != "noobaa" {
		return invalid("mode: it is safe or noobaa, not %q", mode)
	}
	if mode != "" {
		path += "?mode=" + mode
	}
	out, err := fromLeader(ctx.Request().Context(), c.Kube.Leading, path, func(limited context.Context) (Simulation, error) {
		return c.here().Simulate(limited, ctx.Param("cluster"), ctx.Param("node"), mode)
	})
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, out)
}

// power asks the fence devices, from every peer with ?all=1: each of them may
// lead when a machine has to be switched off.
func (c *Control) power(ctx echo.Context) error {
	limited, cancel := context.WithTimeout(ctx.Request().Context(), powerLimit)
	defer cancel()
	others := make(chan []FencePower, 1)
	go func() {
		if !everywhere(ctx) {
			others <- nil
			return
		}
		others <- c.powerElsewhere(limited, below(ctx, pathPower))
	}()
	own, err := c.here().Power(limited, ctx.Param("cluster"), ctx.Param("node"), nil)
	rows := <-others
	if err != nil {
		return err
	}
	rows = append(rows, own)
	slices.SortFunc(rows, func(a, b FencePower) int { return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ID, b.ID)) })
	return ctx.JSON(http.StatusOK, rows)
}

// powerElsewhere is what the devices say to the other peers; of one that says
// nothing, why.
func (c *Control) powerElsewhere(ctx context.Context, path string) (rows []FencePower) {
	for _, a := range c.Others.Ask(ctx, path) {
		var row FencePower
		if a.Err == nil {
			row, a.Err = hear[FencePower](a.Body)
		}
		if a.Err != nil {
			row = FencePower{Error: a.Err.Error()}
		}
		row.Peer, row.ID = a.Name, a.ID
		rows = append(rows, row)
	}
	return rows
}

// switchPower does by hand what a remediation does; nothing but the machine is
// touched, and nothing is deleted afterwards.
func (c *Control) switchPower(ctx echo.Context) error {
	var in PowerOrder
	if err := body(ctx, &in); err != nil {
		return err
	}
	node := ctx.Param("node")
	switch {
	case in.Power != PowerOff && in.Power != PowerOn:
		return invalid("power: it is off or on, not %q", in.Power)
	case in.Confirm != node:
		return invalid("confirm: it must repeat the name of the kube node, %q", node)
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), powerLimit)
	defer cancel()
	out, err := c.here().Power(limited, ctx.Param("cluster"), node, &in)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, out)
}

func invalid(format string, args ...any) error {
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
