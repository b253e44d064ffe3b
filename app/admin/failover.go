package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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

// KubeControl is what operators reach of failover through one peer.
type KubeControl struct {
	Here Kube // nil: failover is off on this peer
	// AskLeader and Ask are those of type Here.
	AskLeader func(ctx context.Context, path string) (body []byte, self bool, err error)
	Ask       func(ctx context.Context, path string) []Answer
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
		Message: "failover of kube nodes is off: set failover.mode",
		Hint:    "write failover.mode and failover.kubeconfigs in trivet.yaml on every peer, and restart it"}
}

// here is failover on this peer.
func (k *KubeControl) here() Kube {
	if k.Here == nil {
		return noKube{}
	}
	return k.Here
}

// peerRoutes answer other peers.
func (k *KubeControl) peerRoutes(e *echo.Echo) {
	e.GET(PathPeerFailover, func(c echo.Context) error {
		out, err := k.here().Failover(c.Request().Context())
		return tell(c, out, err)
	})
	e.GET(PathPeerFailover+pathSimulation+ofNode, func(c echo.Context) error {
		out, err := k.here().Simulate(c.Request().Context(), c.Param("cluster"), c.Param("node"), c.QueryParam("mode"))
		return tell(c, out, err)
	})
	e.GET(PathPeerFailover+pathPower+ofNode, func(c echo.Context) error {
		out, err := k.here().Power(c.Request().Context(), c.Param("cluster"), c.Param("node"), nil)
		return tell(c, out, err)
	})
}

func (k *KubeControl) routes(g *echo.Group) {
	g.GET("/failover", get(func(ctx context.Context, _ echo.Context) (Failover, error) {
		return fromLeader(ctx, k, PathPeerFailover, k.here().Failover)
	}))
	g.GET("/failover"+pathSimulation+ofNode, get(k.simulate))
	g.GET("/failover"+pathPower+ofNode, serve(http.StatusOK, powerLimit, k.power))
	g.POST("/failover"+pathPower+ofNode, serve(http.StatusOK, powerLimit, k.switchPower))
}

// fromLeader returns what the leader says, which may be this peer.
func fromLeader[T any](ctx context.Context, k *KubeControl, path string, own func(context.Context) (T, error)) (out T,
	err error) {
	limited, cancel := context.WithTimeout(ctx, judgeLimit)
	defer cancel()
	body, self, err := k.AskLeader(limited, path)
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

// below is a path about one kube node, for another peer.
func below(ctx echo.Context, part string) string {
	return PathPeerFailover + part + url.PathEscape(ctx.Param("cluster")) + "/" + url.PathEscape(ctx.Param("node"))
}

func (k *KubeControl) simulate(ctx context.Context, c echo.Context) (out Simulation, err error) {
	mode, path := c.QueryParam("mode"), below(c, pathSimulation)
	if mode != "" && mode != "safe" && mode != "noobaa" {
		return out, invalid("mode: it is safe or noobaa, not %q", mode)
	}
	if mode != "" {
		path += "?mode=" + mode
	}
	return fromLeader(ctx, k, path, func(limited context.Context) (Simulation, error) {
		return k.here().Simulate(limited, c.Param("cluster"), c.Param("node"), mode)
	})
}

// power asks the fence devices, from every peer with ?all=1: each of them may
// lead when a machine has to be switched off.
func (k *KubeControl) power(ctx context.Context, c echo.Context, _ none) ([]FencePower, error) {
	others := make(chan []FencePower, 1)
	go func() {
		var rows []FencePower
		if everywhere(c) {
			for _, a := range k.Ask(ctx, below(c, pathPower)) {
				var row FencePower
				if a.Err == nil {
					row, a.Err = hear[FencePower](a.Body)
				}
				if a.Err != nil { // of a peer that says nothing, why
					row = FencePower{Error: a.Err.Error()}
				}
				row.Peer, row.ID = a.Name, a.ID
				rows = append(rows, row)
			}
		}
		others <- rows
	}()
	own, err := k.here().Power(ctx, c.Param("cluster"), c.Param("node"), nil)
	rows := append(<-others, own)
	byPeer(rows, func(row FencePower) (peer, id string) { return row.Peer, row.ID })
	return rows, err
}

// switchPower does by hand what a remediation does; nothing but the machine is
// touched, and nothing is deleted afterwards.
func (k *KubeControl) switchPower(ctx context.Context, c echo.Context, in PowerOrder) (out FencePower, err error) {
	node := c.Param("node")
	switch {
	case in.Power != PowerOff && in.Power != PowerOn:
		return out, invalid("power: it is off or on, not %q", in.Power)
	case in.Confirm != node:
		return out, invalid("confirm: it must repeat the name of the kube node, %q", node)
	}
	return k.here().Power(ctx, c.Param("cluster"), node, &in)
}

// invalid is the refusal of what a caller wrote.
func invalid(format string, args ...any) *api.Error {
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
