package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Answer is what one peer said, or why it said nothing.
type Answer struct {
	Name, ID string
	Body     []byte
	Err      error
}

// PathPeerFirewall is where peers ask each other about their filters.
const PathPeerFirewall = "/peer/v1/firewall"

// explain is below both the operators' and the peers' path.
const explain = "/explain/"

// heard is below both the operators' and the peers' path.
const heard = "/heard"

// heard lists the machines that asked to boot and are not under introspection.
func (h *Host) heard(ctx echo.Context) error {
	own := h.Heard()
	own.Self = true
	return ctx.JSON(http.StatusOK, gather(ctx, h, PathPeerFirewall+heard, own,
		func(a Answer) api.Heard { return api.Heard{Peer: a.Name, ID: a.ID, Error: a.Err.Error()} },
		func(row api.Heard) (peer, id string) { return row.Peer, row.ID }))
}

func (h *Host) firewall(ctx echo.Context) error {
	own := h.Firewall()
	own.Self = true
	return ctx.JSON(http.StatusOK, gather(ctx, h, PathPeerFirewall, own,
		func(a Answer) api.Firewall { return api.Firewall{Peer: a.Name, ID: a.ID, Error: a.Err.Error()} },
		func(row api.Firewall) (peer, id string) { return row.Peer, row.ID }))
}

// explain explains a machine, which is named by a MAC, or by the UUID or name of
// its node; then each of its MACs is explained.
func (h *Host) explain(ctx echo.Context) error {
	ref := ctx.Param("machine")
	own, err := h.Explain(ref)
	if err == nil {
		node := identify.NodeAt(h.View(), own.MAC)
		named := h.naming(ctx.Request().Context(), node)
		rows := h.explanations(ctx, own)
		return ctx.JSON(http.StatusOK, withNode(rows, named()))
	}
	if strings.ContainsRune(ref, ':') { // which no name has
		return err
	}
	var named namedNode
	if id, bad := uuid.Parse(ref); bad == nil { // a UUID needs no Ironic; a name is Ironic's
		named = h.naming(ctx.Request().Context(), id.String())()
	} else if named.NodeName, err = h.Names.Of(ctx.Request().Context(), ref); err != nil {
		return unnamed(err)
	}
	macs := identify.MACsOf(h.View(), named.UUID)
	if len(macs) == 0 {
		return &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("no MAC of node %v is known: Ironic lists no port of it, and no introspection is under way",
				named.NodeName),
			Hint: "name the machine by its MAC"}
	}
	rows := []api.Explanation{}
	for _, mac := range macs {
		if own, err = h.Explain(mac); err != nil {
			return err
		}
		rows = append(rows, h.explanations(ctx, own)...)
	}
	return ctx.JSON(http.StatusOK, withNode(rows, named))
}

// explanations are those of one MAC: the own one and, if the caller asks for
// them, those of the other peers.
func (h *Host) explanations(ctx echo.Context, own api.Explanation) []api.Explanation {
	own.Self = true
	return gather(ctx, h, PathPeerFirewall+explain+url.PathEscape(own.MAC), own, func(a Answer) api.Explanation {
		return api.Explanation{Peer: a.Name, ID: a.ID, MAC: own.MAC, Error: a.Err.Error()}
	}, func(row api.Explanation) (peer, id string) { return row.Peer, row.ID })
}

// everywhere reports whether the other peers are to be asked, too.
func everywhere(ctx echo.Context) bool { return ctx.QueryParam("all") == "1" }

// gather returns the own row and, if the caller asks for them, those of the other peers, by the names of these;
// for one that says nothing there is what silent returns.
func gather[T any](ctx echo.Context, h *Host, path string, own T, silent func(Answer) T,
	of func(T) (peer, id string)) []T {
	rows := []T{own}
	if everywhere(ctx) {
		for _, a := range h.Ask(ctx.Request().Context(), path) {
			var row T
			if a.decode(&row); a.Err != nil {
				row = silent(a)
			}
			rows = append(rows, row)
		}
	}
	byPeer(rows, of)
	return rows
}

// decode reads what the peer said, unless it said nothing.
func (a *Answer) decode(into any) {
	if a.Err != nil {
		return
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		a.Err = fmt.Errorf("decode response from %s: %w", a.Name, err)
	}
}

// byPeer sorts rows by the names of their peers, and those of one name by server ID.
func byPeer[T any](rows []T, of func(T) (peer, id string)) {
	slices.SortStableFunc(rows, func(a, b T) int {
		peer, id := of(a)
		other, otherID := of(b)
		return cmp.Or(cmp.Compare(peer, other), cmp.Compare(id, otherID))
	})
}

// namedNode is a node and its name, or why the name is missing.
type namedNode struct {
	ironic.NodeName
	problem error
}

// naming asks for the name of a node while the caller does something else; the
// returned function waits for it. No node has no name.
func (h *Host) naming(ctx context.Context, node string) (wait func() namedNode) {
	n := namedNode{NodeName: ironic.NodeName{UUID: node}}
	var asking sync.WaitGroup
	if node != "" {
		asking.Go(func() {
			var found ironic.NodeName
			if found, n.problem = h.Names.Of(ctx, node); n.problem == nil {
				n.Name = found.Name
			}
		})
	}
	return func() namedNode {
		asking.Wait()
		return n
	}
}

// unnamed says what to do where a name was not found out. That Ironic is away is
// no want of a leader, as which operators' tools would take the status alone.
func unnamed(err error) error {
	e := *api.Refusal(err)
	if e.Status == http.StatusServiceUnavailable {
		e.Code = api.CodeFailed
	}
	e.Hint = "name the machine by the UUID of its node, or by its MAC"
	return &e
}

// withNode writes the node into explanations.
func withNode(rows []api.Explanation, n namedNode) []api.Explanation {
	for i := range rows {
		rows[i].Node, rows[i].NodeName = n.UUID, n.Name
		if n.problem != nil {
			rows[i].NodeProblem = n.problem.Error()
		}
	}
	return rows
}
